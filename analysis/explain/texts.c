#include "explain/texts.h"

#include <glib.h>
#include <string.h>

/* In the order of the registry. */
static const struct explanation explanations[] = {
    {
        .id = "stale-fd",
        .severity = "error",
        .means = "A queue's handler stays in a loop that has nothing to do with the queue any more.",
        .effect = "The loop wakes for a descriptor that nobody reads: one processor at 100 %, every read answers EAGAIN; or it "
                  "serves another descriptor that got the same number.",
        .decided = "A handler is one life, from attach to detach, whatever its descriptor's number. It is stale from the event on "
                   "that took its queue away: its notifier was detached or released, its device stopped or failed, or the queue "
                   "moved to another loop. It is a fault when it is still there {handover-overlap} later. Its dispatches that "
                   "found nothing since then are the count.",
        .silent = "a descriptor of another role that two loops share on purpose; a descriptor number that was used again; the short "
                  "overlap of a hand-over, and a longer one if the thread that detached the notifier takes the handler out as its "
                  "next act and the handler never ran for nothing meanwhile.",
        .unsure = "events of the loop's thread, or of the thread whose act made the handler stale, were lost after that and the "
                  "handler gave no sign of life since; or the recording has no whole baseline and the attach was not seen.",
        .helps = "loop: how often the handler ran for nothing, and what share of the loop's dispatches that is.",
        .causes = "drain, drain nested in start, drain nested in stop, left over from before the recording, attached while the device was stopped, not removed when the queue "
                  "moved, the notifier was detached or released, or the device stopped",
        .advice = "Whoever detaches, releases or moves a notifier takes its handler out of the loop first. A drain that is nested in "
                  "start or stop leaves notifiers alone.",
    },
    {
        .id = "unread-fd",
        .severity = "error",
        .means = "A handler is run again and again and does not consume what made its descriptor ready.",
        .effect = "One processor at 100 % while nothing moves; latency of everything else in that loop.",
        .decided = "{unread-dispatches} dispatches in a row report no progress, none of them among lost events, and nothing is wrong "
                   "with the handler's registration.",
        .silent = "a stale handler (stale-fd tells that), and the right handler of the same queue beside it; a handler that finds "
                  "nothing now and then; a handler that runs because of its own claim of progress (false-progress).",
        .unsure = "the handler's registration was never announced, so that it may be a stale one; or events were lost in every row.",
        .advice = "Let the handler consume what it is called for, or take it out while it does not want it. A descriptor that "
                  "the other side has closed stays ready for ever.",
    },
    {
        .id = "false-progress",
        .severity = "warning",
        .means = "Polling reports progress and nothing is consumed.",
        .effect = "The loop never blocks: one processor at 100 % without requests, and adaptive polling grows.",
        .decided = "{false-progress} polls in a row were ended by a handler, and the loop polls again without having taken or completed "
                   "a request, run work, or dispatched anything with progress.",
        .silent = "polling that pays, at any processor load; polling to its timeout; a timer that expires in every pass, which is "
                  "real progress; a stale or unread descriptor, which has findings of its own.",
        .unsure = "the set request was not recorded and the samples of the queues do not show that nothing moved; or events were lost "
                  "in every row.",
        .helps = "request: whether a request was taken between two polls; else samples of the queues must show it.",
        .advice = "A poll callback returns true only if its handler then finds something. After a drain, check that the handler was "
                  "attached again with its own callbacks.",
    },
    {
        .id = "deaf-queue",
        .severity = "error",
        .means = "Requests wait in a ring, its loop sleeps, and the driver was told not to kick.",
        .effect = "The guest's I/O hangs with no processor time used and no error anywhere.",
        .decided = "For {deaf-queue}: the queue is attached, neither drained nor broken, its notifications are off, a sample of the ring "
                   "shows requests that were not taken, and its loop sleeps without a timeout.",
        .silent = "a drain, which detaches the queue on purpose; notifications that are off because the loop still polls; a loop "
                  "that sleeps for want of work; an idle guest.",
        .unsure = "requests wait and the loop's sleep, the attachment or the samples are unknown; or events of the loop's thread, or "
                  "of who drains, were lost before it had lasted long enough.",
        .advice = "Whoever attaches a queue turns its notifications on and looks at the ring once more. First aid: reset the device, "
                  "or move the queue to another loop.",
    },
    {
        .id = "lost-wakeup",
        .severity = "error",
        .means = "Work was handed to a loop, and the loop sleeps on.",
        .effect = "A request, a drain or the whole device hangs until something unrelated wakes the loop, which may be never.",
        .decided = "Work was published, no pass has looked since, and the loop is blocked without a timeout to the end of the trace, "
                   "for at least {stuck-request}.",
        .silent = "a sleep for want of work; a notify that wrote nothing because the loop looks before it blocks; a timer that was "
                  "armed; work that ran in the same pass.",
        .unsure = "events of the loop's thread since the publication were lost, or of the publisher where no notify was seen.",
        .causes = "suppressed (the notify saw 0 and wrote nothing), no-notify (none followed), unread (the event was written and the "
                  "loop did not wake)",
        .advice = "suppressed: check the order of the four steps of the handshake (publish, fence, read notify_me; raise notify_me, "
                  "fence, look again). no-notify: find the path that hands over work without notifying. unread: find who took the "
                  "wake-up descriptor out of the loop, or who else reads it.",
    },
    {
        .id = "late-wakeup",
        .severity = "warning",
        .means = "Work was handed to a loop, and only a timer or an unrelated descriptor woke it.",
        .effect = "Latency in steps of a timer's period; a device that is slow now and then without reason.",
        .decided = "Work was published, nobody wrote the loop's event for it, and the sleep ended later than {late-wakeup} after that.",
        .silent = "a notify that was written and took long (a machine without a free processor); a loop that was busy, not asleep.",
        .unsure = "events of the loop's thread, or of the publisher where no notify was seen, were lost meanwhile.",
        .causes = "suppressed (the notify saw 0 and wrote nothing), no-notify (none followed)",
        .advice = "As for lost-wakeup: the same fault, hidden by a timer.",
    },
    {
        .id = "needless-event-writes",
        .severity = "warning",
        .means = "Threads write a loop's event while it polls and would see a flag in memory.",
        .effect = "Two system calls for every notification; throughput of several queues with polling suffers most.",
        .decided = "Over the whole recording of a loop, at least {needless-writes-min} of its event writes came while it was polling, and "
                   "these are at least {needless-writes} of its notifications.",
        .silent = "writes to a loop that is about to block; the few that fall between two polls.",
        .unsure = "never: totals survive lost events.",
        .helps = "loop: who wrote, and which value of notify_me was seen. request: system calls per request.",
        .advice = "Keep notify_me at 0 while the loop polls, raise it only before it blocks, and look once more after that "
                  "(vblkd --notify=blocking-only).",
    },
    {
        .id = "notify-me-unbalanced",
        .severity = "error",
        .means = "The flag by which a loop asks to be woken does not return to its resting value.",
        .effect = "Stuck above 0, every notification costs a system call; lowered twice, the next one is lost and the loop hangs.",
        .decided = "When a loop raises the flag, polls or blocks, the flag must have been 0 since its last wait. Once is enough.",
        .silent = "a flag that is up while the loop may block; values before the recording that nobody announced.",
        .unsure = "a change of the flag may be among lost events of the loop's thread.",
        .advice = "Lower the flag after the wait in every pass that raised it, also if the second look made the timeout 0 and if the "
                  "wait failed.",
    },
    {
        .id = "drain-order",
        .severity = "error",
        .means = "A drain, a start or a stop does something at a time at which another one owns it.",
        .effect = "Handlers that nobody removes (stale-fd), queues that nobody serves, memory that is used after a drain promised quiet.",
        .decided = "A drain attaches or detaches a notifier while start or stop owns it; or the outermost drain ends with requests in "
                   "flight; or a drain ends that never began; or the device makes a change of state that does not exist, as when a stop "
                   "overtakes its start.",
        .silent = "a drain that takes long and ends right; drains nested in each other; the detaches and attaches that a drain makes "
                  "in a started device; a drain that is still open at the end.",
        .unsure = "the thread of an attach was not recorded while a drain was open inside start or stop; or the begin of a drain, or a "
                  "change of state, may be among lost events.",
        .causes = "drain nested in start, drain nested in stop, requests in flight, impossible state change, end without begin",
        .advice = "Let drain callbacks look at a flag that is set only when start is about to attach and is cleared in stop before the "
                  "disk moves back. Start and stop of one device exclude each other.",
    },
    {
        .id = "vma-pressure",
        .severity = "warning; error from {mapping-error} on",
        .means = "The process's memory mappings approach the kernel's limit (vm.max_map_count).",
        .effect = "None yet. At the limit, stacks, threads and libraries cannot be mapped and the process fails.",
        .decided = "Samples show at least {mapping-warning} of the limit in use. All those samples together are split into stacks that idle "
                   "in pools, stacks of requests in flight, and everything else; the largest is the cause. The last samples give a "
                   "forecast if they still grow.",
        .silent = "many mappings below the limit; growth that has ended gives no forecast; a process that ran out (vma-exhausted "
                  "replaces this).",
        .unsure = "never: samples tell all; without samples it is silent.",
        .causes = "pooled-idle (stacks idle in pools), concurrency (stacks in use), other-mappings (not stacks)",
        .advice = "pooled-idle: bound the pool (--coroutine-pool=batched) or make stacks cost no mapping (--stack-guard). concurrency: raise "
                  "vm.max_map_count, or offer fewer or shorter queues. other-mappings: look into /proc/PID/maps for what repeats.",
    },
    {
        .id = "vma-exhausted",
        .severity = "error",
        .means = "A stack could not be mapped.",
        .effect = "Requests wait or fail; whatever else maps memory in the process fails as well.",
        .decided = "The process says so itself. Who holds the mappings is attributed as for vma-pressure.",
        .silent = "nothing: it is always told.",
        .unsure = "never: only the event itself may be lost, which events-lost tells.",
        .causes = "pooled-idle, concurrency, other-mappings, as for vma-pressure",
        .advice = "As for vma-pressure; first aid: sysctl vm.max_map_count with a larger value, which acts at once.",
    },
    {
        .id = "pool-overflow",
        .severity = "warning",
        .means = "Coroutines are freed because the pool is full, and made anew a moment later.",
        .effect = "Every one costs mapping and unmapping a stack, under the process's memory lock.",
        .decided = "In each of {sustained} seconds in a row batches were freed and at least half as many coroutines were made anew.",
        .silent = "a burst at boot; a pool that shrinks after a peak and makes nothing anew.",
        .unsure = "never: totals survive lost events; without samples it is silent.",
        .advice = "Let the pool hold what is alive at once; the finding suggests a figure. More devices or queues raise its maximum.",
    },
    {
        .id = "pool-imbalance",
        .severity = "warning",
        .means = "One thread only takes coroutines and makes them anew while another only gives and frees them.",
        .effect = "Memory and processor time for stacks that the process has already, in the wrong thread.",
        .decided = "For {sustained} seconds in a row and at the same time, a thread nearly only takes and misses more than {thrash} of its takes, "
                   "and another nearly only gives and overflows; nearly only is at most a tenth of the other direction.",
        .silent = "threads that take and give; an imbalance that the global pool evens out.",
        .unsure = "never: totals survive lost events; without samples it is silent.",
        .advice = "Use the batched pool (--coroutine-pool=batched); if it is in use, its maximum is too small.",
    },
    {
        .id = "pool-thrash",
        .severity = "warning",
        .means = "A share of the coroutines that are needed has to be made anew, second after second.",
        .effect = "Mapping and unmapping stacks on the way of requests.",
        .decided = "In each of {sustained} seconds in a row more than {thrash} of the process's takes missed, with at least {thrash-min} takes in all.",
        .silent = "warm-up and bursts; a pool that misses seldom; a process that takes little.",
        .unsure = "never: totals survive lost events; without samples it is silent.",
        .advice = "Let the pool be larger, or let the process have one (--coroutine-pool=batched).",
    },
    {
        .id = "lock-contention",
        .severity = "warning",
        .means = "Threads spend a share of their time waiting for one lock.",
        .effect = "Throughput that does not grow with more threads or queues.",
        .decided = "In each of {sustained} seconds in a row waiting for the lock grew by more than {contention} of what the busy time of the "
                   "threads grew by that use it, with at least {contention-min} waits in all.",
        .silent = "a lock that is waited for often and shortly; contention for a second or two; long holding that nobody waits for.",
        .unsure = "that a coroutine mutex is never held across a yield is said only if the sets lock and coroutine were recorded without "
                  "losses; the contention itself comes from totals and survives lost events.",
        .helps = "lock and coroutine: whether the lock is ever held across a yield; if not, a thread mutex would do.",
        .causes = "coroutine mutex that is never held across a yield",
        .advice = "Hold it for less, or give each loop its own part of what it protects. For the tracked requests: "
                  "vblkd --request-lock=sharded.",
    },
    {
        .id = "lock-across-yield",
        .severity = "error",
        .means = "A coroutine gave up its thread while it held a thread mutex.",
        .effect = "Whoever wants the mutex in the same thread waits for ever: the loop deadlocks with itself. It may go well for years.",
        .decided = "The program says so (rt_lock:held_at_yield), or acquisition, yield and release are seen. It is a deadlock if, at the end "
                   "of the trace, locks, drains and loops wait for each other in a cycle, which is printed edge by edge.",
        .silent = "a coroutine mutex held across a yield, which is allowed; a thread mutex that is released before the yield.",
        .unsure = "the yield is seen, not told, and the release may be among lost events; or whether a thread of the cycle has gone on.",
        .helps = "lock and coroutine: yields that the program does not tell, and the cycle.",
        .causes = "deadlock, near-miss",
        .advice = "Release the mutex before anything that may yield, or make it a coroutine mutex.",
    },
    {
        .id = "stuck-request",
        .severity = "error",
        .means = "A request began and never ended.",
        .effect = "The guest's I/O hangs; after 30 s its kernel complains.",
        .decided = "It is in flight at the last event of its process, for longer than {stuck-request}, was not abandoned and not resubmitted "
                   "under a new id. Its stage is named, the chain of requests it waits for, or the cycle.",
        .silent = "what took long and ended (slow-requests); a request that is reported as lost; a request whose front end left and did "
                  "not come back.",
        .unsure = "its end may be among lost events and no later sample shows that the queue has nothing in flight.",
        .helps = "request: its whole way; without that set, what the device reports as slow.",
        .causes = "the stage (queued, serialising, backend, completing), or cycle",
        .advice = "backend: look at the disk below (dmesg, iostat). serialising: look at the request at the end of the chain. Else: look "
                  "for findings about the queue's loop.",
    },
    {
        .id = "wrong-loop",
        .severity = "error",
        .means = "A request was taken from a ring in a loop that does not own the queue.",
        .effect = "Two threads work on one ring without a lock: corrupted rings and data.",
        .decided = "A loop change named the queue's owner, and a request begins in another loop later than {handover-overlap} after the change.",
        .silent = "the hand-over itself, in which both may be right; requests that end elsewhere.",
        .unsure = "a later change of the owner may be among lost events.",
        .advice = "Stop the device or move the queue back, and look at how it was moved: its requests run in the new loop from the end of "
                  "the drain on.",
    },
    {
        .id = "loop-hog",
        .severity = "warning",
        .means = "One handler held its loop for long.",
        .effect = "Everything else in that loop stood still meanwhile: other queues, timers, the control socket.",
        .decided = "The loop measured more than {loop-hog} for one handler, work item or timer.",
        .silent = "a loop that is busy with many short handlers.",
        .unsure = "never: the loop tells it.",
        .helps = "request: which requests waited.",
        .advice = "Split the work over several passes, do what blocks in a thread, or give the device its own loop. What counts is time on "
                  "the wall: on a machine with too few processors the thread may only have waited for one.",
    },
    {
        .id = "slow-requests",
        .severity = "warning",
        .means = "More than one request in a thousand took long.",
        .effect = "Latency peaks in the guest.",
        .decided = "Of a device with at least {slow-requests-min} ended requests (else of the process), more than one in a thousand took longer "
                   "than {slow-p999}; counted, not estimated. The stage in which those spent most of their time is the cause.",
        .silent = "a few slow ones among many; too few requests to judge.",
        .unsure = "never: requests whose end was lost are left out.",
        .causes = "queued, serialising, backend, completing",
        .advice = "backend: the disk, its file system or the network; the device is clean. serialising: overlapping writes of the guest. "
                  "queued, completing: look for lock-contention, pool-thrash, loop-hog and late-wakeup.",
    },
    {
        .id = "missing-interrupt",
        .severity = "error",
        .means = "Requests were completed, and the driver was neither notified nor had said that it does not want to be.",
        .effect = "The guest waits for what is done, until another request completes.",
        .decided = "{deferred-interrupt} after a completion, neither a sent nor a suppressed interrupt has followed on its queue.",
        .silent = "a driver that wants no interrupts; interrupts that are gathered for a moment; a stop, a reset or a front end that left.",
        .unsure = "the interrupt may be among lost events.",
        .advice = "Look at what the device believes about the driver's wish (EVENT_IDX, the call descriptor) since the queue was last "
                  "started. First aid: reset the device.",
    },
    {
        .id = "queue-broken",
        .severity = "error",
        .means = "A queue was stopped, because the driver broke the protocol or what the front end gave for it failed.",
        .effect = "The queue serves nothing until the driver resets the device.",
        .decided = "The device says so itself, with the reason.",
        .silent = "requests that are refused with an error status: the protocol allows them.",
        .unsure = "never.",
        .advice = "Look at the guest's kernel log and its driver's version at that time. If it is not a protocol error: at the front end and "
                  "the host's limits.",
    },
    {
        .id = "lost-request",
        .severity = "error",
        .means = "A request in flight at a restart was forgotten, or completed twice.",
        .effect = "The guest waits for ever, or its data is wrong because the second completion met another request.",
        .decided = "A restart is a front end that connects again, or a later process on the same host with a device of the same name. What "
                   "was in flight by queue and head is owed: resubmitted or completed before the queue goes on, serves for a second, or "
                   "{stuck-request} pass. Twice: both lives of a head ended.",
        .silent = "a front end that asks for a new in-flight region: its driver is new and owed nothing; abandoned requests.",
        .unsure = "the resubmission or the end may be among lost events, or among what a killed process did in its last moment.",
        .causes = "not resubmitted, completed twice",
        .advice = "Reset the device in the guest; after a double completion check its file system. Look at how the in-flight region is read: "
                  "every slot in flight, in the order of its counter, slot 0 too.",
    },
    {
        .id = "poll-waste",
        .severity = "info",
        .means = "A loop spends most of its time polling and hardly ever finds anything.",
        .effect = "Processor time for nothing. Latency does not suffer.",
        .decided = "Over the whole recording of a loop, polling takes over half of its thread's time and under 5 % of the polls pay. The "
                   "handler is named that keeps the polling window open.",
        .silent = "polling that pays, also at 100 % of a processor.",
        .unsure = "never: totals survive lost events.",
        .helps = "loop: which handler ended the polls that paid.",
        .advice = "Lower --poll-max-ns, or switch polling off for this load. Keep it where latency matters more than the processor.",
    },
    {
        .id = "events-lost",
        .severity = "info",
        .means = "The tracer discarded events, or a stream is cut.",
        .effect = "None on the device. Other checks may say that they cannot tell.",
        .decided = "The trace says so: streams and intervals. The number of lost events is not credible in lttng-tools 2.13 and is not used.",
        .silent = "streams that are complete.",
        .unsure = "never.",
        .advice = "Record again with fewer sets or larger buffers (vblkscope record --buffer-size).",
    },
};

const struct explanation *explanation_find(const char *id)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(explanations); i++)
        if (strcmp(explanations[i].id, id) == 0)
            return &explanations[i];
    return NULL;
}
