#!/bin/sh
# Goal: a recording of a running process learns what exists (a whole baseline, in order, with true values) and then what
#   happens to pools, locks and mappings, as the trace contract says.
# Method: a process with known loops, locks and coroutines is recorded by a real session that starts after it; it is told
#   what to do, and the trace is read back as text.
# If it fails: an analysis of a running device cannot tell anything, or names the wrong lock or thread.
# usage: integration_process.sh SUBJECT [SANITIZER]
set -eu
here=$(dirname "$0")
. "$here/../../tracepoints/private_lttng.sh"
subject=$1
# ThreadSanitizer ends a process that cannot map: stacks run out in the other builds only.
exhaust=exhaust
[ "${2-}" != thread ] || exhaust=

tell() {
    echo "$1" >&9
    wait_for grep -q "done $1" "$work/said"
}
# Lines "event: { fields }" of the trace.
trace() {
    babeltrace2 "$work/trace" | sed -E 's/^\[[^]]*\] \([^)]*\) \S+ (\S+: )\{ [^}]* \}, /\1/'
}
expect() {
    trace | grep -Eq "^$1" || { trace | tail -60; fail "not in the trace: $1"; }
}

lttng-sessiond --daemonize
mkfifo "$work/stdin"
"$subject" <"$work/stdin" >"$work/said" &
subject_pid=$!
exec 9>"$work/stdin"
wait_for grep -q ready "$work/said"

# The session begins long after the process, as when one attaches to a device that misbehaves.
lttng create subject --output="$work/trace" >/dev/null
lttng enable-event --userspace 'rt_*' --session subject >/dev/null
lttng start subject >/dev/null

whole_baseline() {
    lttng stop subject >/dev/null
    trace | grep -q 'rt_process:baseline_end'
    found=$?
    lttng start subject >/dev/null
    return $found
}
wait_for whole_baseline
for command in yield-holding suspend-holding contend overflow thread $exhaust baseline; do
    tell $command
done
exec 9>&-
wait $subject_pid || fail "the subject ended with status $?"
lttng destroy subject >/dev/null

step "the baseline holds everything, in order"
trace | awk '
    /^rt_process:baseline_begin/ { inside = 1; next }
    /^rt_process:baseline_end/   { exit }
    inside && /^rt_process:info/ { print "info" }
    inside && /^rt_loop:create/  { print "loops" }
    inside && /source-marker/    { print "sources" }
    inside && /^rt_process:vma_sample/ { print "mappings" }
    inside && /^rt_pool:global_sample/ { print "pools" }
    inside && /^rt_lock:create/ && /subject-held/ { print "locks" }' | uniq >"$work/order"
printf 'info\nloops\nsources\nmappings\npools\nlocks\n' | diff -u - "$work/order" || fail "the baseline is out of order"

step "a baseline is enclosed by one serial"
trace | sed -nE 's/^rt_process:baseline_(begin|end): \{ serial = ([0-9]+) \}/\1 \2/p' >"$work/serials"
awk '$1 == "begin" { open = $2; next } $2 != open { exit 1 } { open = "" } END { exit open != "" }' "$work/serials" ||
    { cat "$work/serials"; fail "begin and end do not pair"; }

step "what exists"
expect 'rt_process:info: \{ version = "1.2.3", max_map_count = [0-9]+, stack_bytes = 65536, batch_size = 128, pool_policy = "batched", notify_policy = "blocking-only", request_lock = "sharded", stack_guard = "(lightweight|mprotect)", loop_monitor = "epoll", faults = "one,two", mappings_per_1000_stacks = [0-9]+, contract_version = 1 \}'
expect 'rt_loop:create: \{ loop_id = [0-9]+, name = "subject-main"'
expect 'rt_loop:create: \{ loop_id = [0-9]+, name = "subject-io"'
expect "rt_process:vma_sample: \{ vma_count = [1-9][0-9]*, max_map_count = $(cat /proc/sys/vm/max_map_count), stack_count = 43, stack_vma_count = [1-9][0-9]*, live_count = 3 \}"
expect 'rt_pool:local_sample: \{ thread_id = [0-9]+, local_size = 40, takes = 43, gives = 40, misses = 43, refills = 43, donations = 0, overflows = 0, name = "subject" \}'
expect 'rt_pool:global_sample: \{ global_size = 0, global_max = 128, global_hard_max = [0-9]+ \}'
held=$(trace | sed -nE 's/^rt_lock:create: \{ lock_id = ([0-9]+), class_name = "subject-held", kind = \( "thread_mutex".*/\1/p' | head -1)
guilty=$(trace | sed -nE 's/^rt_lock:create: \{ lock_id = ([0-9]+), class_name = "subject-guilty".*/\1/p' | head -1)
[ -n "$held" ] && [ -n "$guilty" ] || fail "the locks are not in the baseline"
expect "rt_lock:owner: \{ lock_id = $held, owner_thread_id = $subject_pid, owner_coroutine_id = 0, waiters = 0 \}"
! trace | grep -E "rt_lock:owner: \{ lock_id = $guilty," || fail "a lock that nobody held has an owner"

step "what happens"
expect "rt_lock:held_at_yield: \{ lock_id = $guilty, thread_id = $subject_pid, coroutine_id = [1-9]"
! trace | grep -E "rt_lock:held_at_yield: \{ lock_id = $held," || fail "the thread's own lock was blamed on a coroutine"
for class in co-mutex reading writing queueing moving; do
    id=$(trace | sed -nE 's/^rt_lock:create: \{ lock_id = ([0-9]+), class_name = "guilty-of-'$class'".*/\1/p' | head -1)
    told=$(trace | grep -Ec "rt_lock:held_at_yield: \{ lock_id = ${id:-none}, thread_id = $subject_pid, coroutine_id = [1-9]") || true
    [ "$told" = 1 ] || fail "a coroutine that suspended for $class with a mutex in hand was told of $told times"
done
for class in taken written queue; do
    id=$(trace | sed -nE 's/^rt_lock:create: \{ lock_id = ([0-9]+), class_name = "subject-'$class'".*/\1/p' | head -1)
    [ -n "$id" ] || fail "subject-$class was never made"
    ! trace | grep -E "rt_lock:held_at_yield: \{ lock_id = $id," || fail "subject-$class may be held, or is dropped before"
done
id=$(trace | sed -nE 's/^rt_lock:create: \{ lock_id = ([0-9]+), class_name = "guilty-of-moving".*/\1/p' | head -1)
released_by=$(trace | sed -nE "s/^rt_lock:released: \{ lock_id = $id, thread_id = ([0-9]+),.*/\1/p")
[ -n "$released_by" ] && [ "$released_by" != "$subject_pid" ] ||
    fail "a mutex did not go along with the coroutine that holds it"
expect "rt_lock:wait: \{ lock_id = $held, thread_id = [0-9]+, coroutine_id = 0, owner_thread_id = $subject_pid, owner_coroutine_id = 0 \}"
expect "rt_lock:acquired: \{ lock_id = $held, thread_id = [0-9]+, coroutine_id = 0, waited = 1 \}"
expect "rt_lock:sample: \{ lock_id = $held, acquisitions = 3, contentions = 1, wait_ns = [1-9]"
expect 'rt_pool:resize: \{ delta = 10, global_max = 138,'
expect 'rt_pool:resize: \{ delta = -10, global_max = 128,'
expect "rt_pool:refill: \{ thread_id = $subject_pid, taken = 0, global_size = 0,"
expect "rt_pool:donate: \{ thread_id = $subject_pid, given = 128, global_size = 128, global_max = 138 \}"
expect "rt_pool:overflow: \{ thread_id = $subject_pid, dropped = 128, global_size = 256, global_max = 138,"
expect 'rt_pool:thread_exit: \{ thread_id = [0-9]+, freed = (1|128) \}'
[ -z "$exhaust" ] || expect 'rt_process:vma_exhausted: \{ operation = "(mmap|madvise\(MADV_GUARD_INSTALL\)|mprotect)", error = -12, vma_count = [1-9]'

step "lives of coroutines pair"
trace | sed -nE 's/^rt_coroutine:(create|terminate): \{ coroutine_id = ([0-9]+),.*/\1 \2/p' >"$work/lives"
awk '$1 == "create" { if (born[$2]++) exit 1 } $1 == "terminate" && !born[$2] { early++ } END { exit early != 3 }' "$work/lives" ||
    fail "a coroutine was created twice, or more ended than the three that lived before"
