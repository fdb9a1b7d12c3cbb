/*
 * Goal:   lost-wakeup and late-wakeup are found, with their cause, and no order of events that is right is taken for one.
 * Method: publications, notifications and passes of one loop as text; losses in the loop's, the publisher's and other streams.
 * Breaks: a hang of weeks stays unexplained, or a loop that rightly sleeps for want of work is blamed.
 *
 * Thread 12 on processor 1 runs iothread0 (loop 3), thread 13 on processor 2 is the worker that hands it work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

#define PUBLISH "13@2 rt_loop:publish loop_id=3 thread_id=13 kind=0\n"
#define PUBLISH_COROUTINE "13@2 rt_loop:publish loop_id=3 thread_id=13 kind=1\n"
#define PUBLISH_TIMER "13@2 rt_loop:publish loop_id=3 thread_id=13 kind=2\n"
#define NOTIFY_SILENT "13@2 rt_loop:notify loop_id=3 thread_id=13 notify_me=0 wrote_event=0\n"
#define NOTIFY_WRITES "13@2 rt_loop:notify loop_id=3 thread_id=13 notify_me=1 wrote_event=1\n"
#define ACCEPT "12@1 rt_loop:notify_accept loop_id=3 was_notified=1\n"
#define RUN "12@1 rt_loop:work_run loop_id=3 count=1\n"
#define SLEEP "12@1 rt_loop:wait_begin loop_id=3 timeout_ns=-1\n"
#define WAKE "12@1 rt_loop:wait_end loop_id=3 ready_count=1\n"
#define DOZE "12@1 rt_loop:wait_begin loop_id=3 timeout_ns=500000000\n"
#define DOZE_ENDS "12@1 rt_loop:wait_end loop_id=3 ready_count=0\n"

static struct feed *begin(void)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, "1.5 " SLEEP "1.6 " WAKE);
    return f;
}

static void expect(struct feed *f, const char *findings, const char *inconclusive)
{
    assert_string_equal(feed_findings(f), findings);
    assert_string_equal(feed_inconclusive(f), inconclusive);
    feed_destroy(f);
}

static void expect_cause(struct feed *f, const char *id, const char *cause, int64_t count)
{
    json_t *finding = feed_finding(f, id);

    assert_string_equal(json_text_of(finding, "cause"), cause);
    assert_int_equal(json_number_of(finding, "count"), count);
    assert_string_equal(json_text_of(json_object_get(finding, "subject"), "loop"), "iothread0");
    assert_int_equal(json_number_of(json_object_get(finding, "subject"), "thread_id"), 12);
}

/* --- lost -------------------------------------------------------------------------------------------------- */

static void test_suppressed(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " PUBLISH "2.1 " NOTIFY_SILENT "2.2 " SLEEP);
    feed_end(f, 13);
    assert_string_equal(json_text_of(feed_finding(f, "lost-wakeup"), "severity"), "error");
    expect_cause(f, "lost-wakeup", "suppressed", 1);
    expect(f, "lost-wakeup", "");
}

static void test_suppressed_while_asleep(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH "2.2 " NOTIFY_SILENT "3 " PUBLISH_COROUTINE "3 " NOTIFY_SILENT);
    feed_end(f, 13);
    expect_cause(f, "lost-wakeup", "suppressed", 2);
    expect(f, "lost-wakeup", "");
}

static void test_no_notify(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH);
    feed_end(f, 13);
    expect_cause(f, "lost-wakeup", "no-notify", 1);
    expect(f, "lost-wakeup", "");
}

static void test_notify_of_another_thread_is_not_its_own(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH
            "2.2 11@0 rt_loop:notify loop_id=3 thread_id=11 notify_me=0 wrote_event=0\n");
    feed_end(f, 13);
    expect_cause(f, "lost-wakeup", "no-notify", 1);
    expect(f, "lost-wakeup", "");
}

static void test_unread(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH "2.2 " NOTIFY_WRITES);
    feed_end(f, 13);
    expect_cause(f, "lost-wakeup", "unread", 1);
    expect(f, "lost-wakeup", "");
}

static void test_unread_when_a_later_event_does_not_wake_it(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH "2.2 " NOTIFY_SILENT "2.3 " PUBLISH "2.4 " NOTIFY_WRITES);
    feed_end(f, 13);
    expect_cause(f, "lost-wakeup", "unread", 2);
    expect(f, "lost-wakeup", "");
}

static void test_other_loops_and_threads_change_nothing(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH "2.2 " NOTIFY_SILENT);
    feed(
        f,
        "3 11@0 rt_loop:notify_accept loop_id=2 was_notified=1\n3 11@0 rt_loop:work_run loop_id=2 count=9\n");
    feed_end(f, 13);
    expect(f, "lost-wakeup", "");
}

static void test_without_context(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1.5 -@1 rt_loop:wait_begin loop_id=3 timeout_ns=-1\n"
            "2.1 -@2 rt_loop:publish loop_id=3 thread_id=13\n"
            "2.2 -@2 rt_loop:notify loop_id=3 thread_id=13 notify_me=0 wrote_event=0\n");
    feed_end(f, 13);
    expect(f, "lost-wakeup", "");
}

static void announce(struct feed *f, const char *text)
{
    feed(f, "2.0 19@3 rt_process:baseline_begin serial=2\n");
    feed_format(f, "2.1 19@3 rt_loop:state loop_id=3 notify_me=1 %s", text);
    feed(f, "2.2 19@3 rt_process:baseline_end serial=2\n");
}

static void test_asleep_before_the_recording(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    announce(f, "notified=1 pending=2 waiting=1 waiting_ns=60000000000 timeout_ns=-1");
    feed_end(f, 4);
    expect_cause(f, "lost-wakeup", "suppressed", 1);
    expect(f, "lost-wakeup", "");

    f = feed_create(FEED_ALL_SETS);
    feed(f, feed_baseline);
    announce(f, "notified=0 pending=1 waiting=1 waiting_ns=1000000000 timeout_ns=-1");
    feed_end(f, 13);
    expect_cause(f, "lost-wakeup", "no-notify", 1);
    expect(f, "lost-wakeup", "");
}

static void test_asleep_before_and_published_now(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    announce(f, "pending=0 waiting=1 waiting_ns=60000000000 timeout_ns=-1");
    feed(f, "2.5 " PUBLISH "2.6 " NOTIFY_SILENT);
    feed_end(f, 13);
    expect_cause(f, "lost-wakeup", "suppressed", 1);
    expect(f, "lost-wakeup", "");
}

/* --- look-alikes --------------------------------------------------------------------------------------------- */

static void test_right_orders_are_silent(void **state)
{
    static const char *const orders[] = {
        /* woken by its event */
        "2.0 " SLEEP "2.1 " PUBLISH "2.1 " NOTIFY_WRITES "2.2 " WAKE "2.2 " ACCEPT "2.2 " RUN "2.3 " SLEEP,
        /* taken in the same pass */
        "2.0 " PUBLISH "2.1 " NOTIFY_SILENT "2.2 " RUN "2.3 " SLEEP,
        "2.0 " ACCEPT "2.1 " PUBLISH "2.1 " PUBLISH "2.1 " NOTIFY_SILENT "2.2 " RUN "2.3 " SLEEP,
        /* looked again: the timeout became 0 */
        "2.0 " PUBLISH "2.1 " NOTIFY_SILENT "2.2 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=0\n"
        "2.2 " DOZE_ENDS "2.2 " ACCEPT "2.2 " RUN "2.3 " SLEEP,
        /* looked again, and did not enter the kernel */
        "2.0 " PUBLISH "2.1 " NOTIFY_SILENT "2.2 12@1 rt_loop:notify_me loop_id=3 old_value=0 new_value=1\n"
        "2.2 12@1 rt_loop:notify_me loop_id=3 old_value=1 new_value=0\n2.2 " ACCEPT "2.2 " RUN "2.3 " SLEEP,
        /* seen by polling */
        "2.0 12@1 rt_loop:poll_begin loop_id=3 timeout_ns=-1\n2.1 " PUBLISH "2.1 " NOTIFY_SILENT
        "2.2 12@1 rt_loop:poll_end loop_id=3 progress=1\n2.3 " SLEEP,
        /* several publications of one bottom half run once, the last of them accepted */
        "2.0 " SLEEP "2.1 " PUBLISH "2.1 " NOTIFY_WRITES "2.1 " PUBLISH "2.1 " NOTIFY_WRITES "2.2 " WAKE
        "2.2 " ACCEPT "2.2 " RUN "2.3 " SLEEP,
        /* another one of the bottom half that this pass runs */
        "2.0 " SLEEP "2.1 " PUBLISH "2.1 " NOTIFY_WRITES "2.2 " WAKE "2.2 " ACCEPT "2.2 " PUBLISH
        "2.2 " NOTIFY_SILENT "2.2 " RUN "2.3 " SLEEP,
        /* the notifier's event comes late: the loop had run the work by then */
        "2.0 " SLEEP "2.1 " PUBLISH "2.2 " WAKE "2.2 " ACCEPT "2.2 " RUN "2.3 " SLEEP "2.4 " NOTIFY_WRITES,
        /* nobody notified, and the loop was awake and looked all the same */
        "2.0 " PUBLISH "2.1 " RUN "2.2 " SLEEP,
        /* the loop's own thread leaves itself work for the next pass */
        "2.0 12@1 rt_loop:publish loop_id=3 thread_id=12\n2.1 12@1 rt_loop:wait_begin loop_id=3 "
        "timeout_ns=0\n"
        "2.1 " DOZE_ENDS "2.1 " RUN "2.3 " SLEEP,
        /* a timer that was armed: the loop sleeps until another one that is due before */
        "2.0 " SLEEP "2.1 " PUBLISH_TIMER "2.1 " NOTIFY_SILENT,
        /* nobody notifies a loop that is told to quit with work */
        "2.0 13@2 rt_loop:notify loop_id=3 thread_id=13 notify_me=0 wrote_event=0\n2.1 " SLEEP,
        /* the loop ended */
        "2.0 " SLEEP "2.1 " PUBLISH "2.2 " NOTIFY_SILENT "3 11@0 rt_loop:destroy loop_id=3\n",
    };

    for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct feed *f = begin();

        feed(f, orders[i]);
        feed_end(f, 40);
        if (*feed_findings(f) || *feed_inconclusive(f))
            fail_msg("order %u: %s / %s", i, feed_findings(f), feed_inconclusive(f));
        feed_destroy(f);
    }
}

static void test_coroutines_run_each_for_itself(void **state)
{
    struct feed *f = begin();

    /* The one that ran is the one that the loop woke for. */
    feed(f, "2.0 " SLEEP "2.1 " PUBLISH_COROUTINE "2.1 " NOTIFY_WRITES "2.2 " WAKE "2.2 " ACCEPT
            "2.3 " PUBLISH_COROUTINE "2.3 " NOTIFY_SILENT "2.4 " RUN "2.5 " SLEEP);
    feed_end(f, 13);
    expect_cause(f, "lost-wakeup", "suppressed", 1);
    expect(f, "lost-wakeup", "");
}

static void test_silent_when_short_of_the_limit(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH "2.2 " NOTIFY_SILENT);
    feed_end(f, 12);
    expect(f, "", "");
}

static void test_silent_when_a_timer_will_end_it(void **state)
{
    struct feed *f = begin();

    feed(f,
         "2.0 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=30000000000\n2.1 " PUBLISH "2.2 " NOTIFY_SILENT);
    feed_end(f, 13);
    expect(f, "", "");
}

static void test_sleeping_for_want_of_work(void **state)
{
    struct feed *f = begin();

    feed(f, "2 " SLEEP "32 " WAKE "33 " SLEEP);
    feed_end(f, 70);
    expect(f, "", "");
}

static void test_announced_idle_loop(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    announce(f, "notified=0 pending=0 waiting=1 waiting_ns=60000000000 timeout_ns=-1");
    feed_end(f, 13);
    expect(f, "", "");
}

static void test_announced_just_before_it_woke(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, "2.0 19@3 rt_process:baseline_begin serial=2\n"
            "2.1 19@3 rt_loop:state loop_id=3 notified=1 pending=1 waiting=1 waiting_ns=60000000000 "
            "timeout_ns=-1\n");
    feed_end(f, 2.105);
    expect(f, "", "");

    f = feed_create(FEED_ALL_SETS);
    feed(f, feed_baseline);
    announce(f, "notified=1 pending=1 waiting=1 waiting_ns=60000000000 timeout_ns=-1");
    feed(f, "2.201 " WAKE "2.201 12@1 rt_loop:notify_me loop_id=3 old_value=1 new_value=0\n"
            "2.202 " RUN "2.203 " SLEEP);
    feed_end(f, 40);
    expect(f, "", "");
}

static void test_announced_empty_later(void **state)
{
    struct feed *f = begin();

    feed(f, "1.7 " PUBLISH "1.7 " NOTIFY_SILENT "1.8 " SLEEP);
    announce(f, "notified=0 pending=0 waiting=1 waiting_ns=300000000 timeout_ns=-1");
    feed_end(f, 13);
    expect(f, "", "");
}

static void test_skipped_without_its_set(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed_end(f, 13);
    assert_non_null(strstr(feed_skipped(f), "lost-wakeup"));
    assert_non_null(strstr(feed_skipped(f), "late-wakeup"));
    expect(f, "", "");
}

/* --- damaged recordings ---------------------------------------------------------------------------------------- */

static void lost_with_loss(unsigned cpu, double begin_s, double end_s, const char *findings,
                           const char *inconclusive)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH "2.2 " NOTIFY_SILENT);
    feed_loss(f, cpu, begin_s, end_s);
    feed_end(f, 13);
    expect(f, findings, inconclusive);
}

static void test_losses(void **state)
{
    lost_with_loss(1, 5, 6, "events-lost", "lost-wakeup");      /* it may have woken */
    lost_with_loss(1, 1.7, 1.8, "events-lost lost-wakeup", ""); /* long before */
    lost_with_loss(2, 5, 6, "events-lost lost-wakeup", "");     /* the publisher's: its notify was seen */
    lost_with_loss(0, 2, 12, "events-lost lost-wakeup", "");    /* another thread's */
}

static void test_cut_stream(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH "2.2 " NOTIFY_SILENT);
    feed_cut(f, 1, 2.5);
    feed_end(f, 13);
    expect(f, "events-lost", "lost-wakeup");
}

static void test_sleep_itself_may_be_lost(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " PUBLISH "2.1 " NOTIFY_SILENT);
    feed_cut(f, 1, 2.05);
    feed_end(f, 13);
    expect(f, "events-lost", "lost-wakeup");
}

static void test_notify_may_be_lost(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH);
    feed_loss(f, 2, 2.2, 2.3);
    feed_end(f, 13);
    expect(f, "events-lost", "lost-wakeup");
}

static void test_a_later_pass_beats_the_gap(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " PUBLISH "2.1 " NOTIFY_SILENT);
    feed_loss(f, 1, 2.2, 2.3);
    feed(f, "3 " WAKE "3 " RUN "3.1 " SLEEP);
    feed_end(f, 40);
    expect(f, "events-lost", "late-wakeup");
}

static void test_unknown_before_the_recording(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "2.0 " PUBLISH "2.1 " NOTIFY_SILENT);
    feed_end(f, 13);
    expect(f, "", "lost-wakeup");
}

/* What a killed process was about to do proves nothing, however long others are traced. */
static void test_silent_when_its_process_was_killed(void **state)
{
    struct feed *f = begin();

    feed(f, "2 19@3 rt_process:vma_sample live_count=1\n2.5 " SLEEP "3 19@3 rt_process:vma_sample live_count=1\n"
            "4 19@3 rt_process:vma_sample live_count=1\n4.5 " PUBLISH "30 2:31@0 rt_loop:create loop_id=3\n");
    feed_end(f, 60);
    expect(f, "", "");

    /* it lived */
    f = begin();
    feed(f, "2 19@3 rt_process:vma_sample live_count=1\n2.5 " SLEEP "3 19@3 rt_process:vma_sample live_count=1\n"
            "4 19@3 rt_process:vma_sample live_count=1\n4.5 " PUBLISH
            "30 2:31@0 rt_loop:create loop_id=3\n58 19@3 rt_process:vma_sample live_count=1\n");
    feed_end(f, 60);
    expect_cause(f, "lost-wakeup", "no-notify", 1);
    expect(f, "lost-wakeup", "");

    /* its samples may be lost, and with them its end */
    f = begin();
    feed(f, "2 19@3 rt_process:vma_sample live_count=1\n2.5 " SLEEP "3 19@3 rt_process:vma_sample live_count=1\n"
            "4 19@3 rt_process:vma_sample live_count=1\n4.5 " PUBLISH "30 2:31@0 rt_loop:create loop_id=3\n");
    feed_cut(f, 3, 4.6);
    feed_end(f, 60);
    expect_cause(f, "lost-wakeup", "no-notify", 1);
    expect(f, "events-lost lost-wakeup", "");
}

/* --- late ------------------------------------------------------------------------------------------------------ */

static void test_late_by_timer(void **state)
{
    struct feed *f = begin();
    json_t *finding;

    for (int i = 0; i < 5; i++)
        feed_format(f,
                    "%d.00 " PUBLISH "%d.00 " NOTIFY_SILENT "%d.01 " DOZE "%d.51 " DOZE_ENDS "%d.51 " ACCEPT
                    "%d.51 " RUN,
                    i + 2, i + 2, i + 2, i + 2, i + 2, i + 2);
    feed_end(f, 40);
    finding = feed_finding(f, "late-wakeup");
    assert_string_equal(json_text_of(finding, "severity"), "warning");
    assert_non_null(strstr(json_text_of(finding, "summary"), "500.000 ms"));
    assert_non_null(strstr(json_text_of(finding, "summary"), "every 1000.000 to 1000.000 ms"));
    expect_cause(f, "late-wakeup", "suppressed", 5);
    expect(f, "late-wakeup", "");
}

static void test_late_by_another_descriptor(void **state)
{
    struct feed *f = begin();
    char *text;

    feed(f, "2.0 " SLEEP "2.1 " PUBLISH "2.1 " NOTIFY_SILENT "14.0 " WAKE
            "14.0 12@1 rt_loop:fd_dispatch loop_id=3 handler_id=7 fd=30 progress=1\n14.0 " RUN "14.1 " SLEEP);
    feed_end(f, 40);
    text = json_dumps(feed_finding(f, "late-wakeup"), 0);
    assert_non_null(strstr(text, "handler 7 (host notifier)"));
    free(text);
    expect_cause(f, "late-wakeup", "suppressed", 1);
    expect(f, "late-wakeup", "");
}

static void test_late_without_notify(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " DOZE "2.1 " PUBLISH "2.5 " DOZE_ENDS "2.5 " RUN "2.6 " SLEEP);
    feed_end(f, 40);
    expect_cause(f, "late-wakeup", "no-notify", 1);
    expect(f, "late-wakeup", "");
}

static void test_not_late(void **state)
{
    static const char *const orders[] = {
        /* within the limit */
        "2.000 " DOZE "2.400 " PUBLISH "2.400 " NOTIFY_SILENT "2.409 " DOZE_ENDS "2.409 " RUN,
        /* the event was written: the scheduler was late, not the wake-up */
        "2.0 " SLEEP "2.1 " PUBLISH "2.1 " NOTIFY_WRITES "2.3 " WAKE "2.3 " ACCEPT "2.3 " RUN,
        /* somebody else's event woke it before its own notify, which was only slow */
        "2.0 " SLEEP "2.1 " PUBLISH
        "2.2 11@0 rt_loop:notify loop_id=3 thread_id=11 notify_me=1 wrote_event=1\n"
        "2.2 " WAKE "2.2 " RUN "2.3 " NOTIFY_SILENT,
        /* the same by a timer */
        "2.0 " DOZE "2.1 " PUBLISH "2.5 " DOZE_ENDS "2.5 " RUN "2.6 " NOTIFY_SILENT,
        /* the loop was busy, then ran it: nobody slept */
        "2.0 " PUBLISH "2.0 " NOTIFY_SILENT "2.9 " RUN "3 " DOZE "3.5 " DOZE_ENDS,
        "2.0 " PUBLISH "2.0 " NOTIFY_SILENT
        "2.9 12@1 rt_loop:wait_begin loop_id=3 timeout_ns=0\n2.9 " DOZE_ENDS,
        /* an armed timer */
        "2.0 " DOZE "2.1 " PUBLISH_TIMER "2.1 " NOTIFY_SILENT "2.5 " DOZE_ENDS,
    };

    for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct feed *f = begin();

        feed(f, orders[i]);
        feed_end(f, 40);
        if (*feed_findings(f) || *feed_inconclusive(f))
            fail_msg("order %u: %s / %s", i, feed_findings(f), feed_inconclusive(f));
        feed_destroy(f);
    }
}

static void test_late_losses(void **state)
{
    struct feed *f = begin();

    feed(f, "2.0 " DOZE "2.1 " PUBLISH "2.1 " NOTIFY_SILENT "2.5 " DOZE_ENDS "2.5 " RUN);
    feed_loss(f, 1, 2.2, 2.3);
    feed_end(f, 40);
    expect(f, "events-lost", "late-wakeup");

    f = begin();
    feed(f, "2.0 " DOZE "2.1 " PUBLISH "2.1 " NOTIFY_SILENT "2.5 " DOZE_ENDS "2.5 " RUN);
    feed(f, "3.0 " DOZE "3.1 " PUBLISH "3.1 " NOTIFY_SILENT "3.5 " DOZE_ENDS "3.5 " RUN);
    feed_loss(f, 1, 2.2, 2.3);
    feed_end(f, 40);
    expect_cause(f, "late-wakeup", "suppressed", 1); /* the other one stands */
    expect(f, "events-lost late-wakeup", "");

    f = begin();
    feed(f, "2.0 " DOZE "2.1 " PUBLISH "2.5 " DOZE_ENDS "2.5 " RUN);
    feed_loss(f, 2, 2.2, 2.3);
    feed_end(f, 40);
    expect(f, "events-lost", "late-wakeup");
}

static void test_memory_is_bounded(void **state)
{
    struct feed *f = begin();

    for (int i = 0; i < 2000; i++)
        feed_format(f, "%d.0 " DOZE "%d.1 " PUBLISH "%d.1 " NOTIFY_SILENT "%d.5 " DOZE_ENDS, i + 2, i + 2,
                    i + 2, i + 2);
    for (int i = 0; i < 100; i++)
        feed_format(f, "%d.5 " PUBLISH, 2003 + i);
    feed_end(f, 2200);
    expect_cause(f, "late-wakeup", "suppressed", 2000);
    expect(f, "late-wakeup", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_suppressed),
        cmocka_unit_test(test_suppressed_while_asleep),
        cmocka_unit_test(test_no_notify),
        cmocka_unit_test(test_notify_of_another_thread_is_not_its_own),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_unread_when_a_later_event_does_not_wake_it),
        cmocka_unit_test(test_other_loops_and_threads_change_nothing),
        cmocka_unit_test(test_without_context),
        cmocka_unit_test(test_asleep_before_the_recording),
        cmocka_unit_test(test_asleep_before_and_published_now),
        cmocka_unit_test(test_right_orders_are_silent),
        cmocka_unit_test(test_coroutines_run_each_for_itself),
        cmocka_unit_test(test_silent_when_short_of_the_limit),
        cmocka_unit_test(test_silent_when_a_timer_will_end_it),
        cmocka_unit_test(test_sleeping_for_want_of_work),
        cmocka_unit_test(test_announced_idle_loop),
        cmocka_unit_test(test_announced_just_before_it_woke),
        cmocka_unit_test(test_announced_empty_later),
        cmocka_unit_test(test_skipped_without_its_set),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_cut_stream),
        cmocka_unit_test(test_sleep_itself_may_be_lost),
        cmocka_unit_test(test_notify_may_be_lost),
        cmocka_unit_test(test_a_later_pass_beats_the_gap),
        cmocka_unit_test(test_unknown_before_the_recording),
        cmocka_unit_test(test_silent_when_its_process_was_killed),
        cmocka_unit_test(test_late_by_timer),
        cmocka_unit_test(test_late_by_another_descriptor),
        cmocka_unit_test(test_late_without_notify),
        cmocka_unit_test(test_not_late),
        cmocka_unit_test(test_late_losses),
        cmocka_unit_test(test_memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
