#!/bin/sh
# Goal: a process is told when a recording starts, so that it can tell what existed before.
# Method: a program that prints a line for each call of session_started, under real sessions: one that is active before it
#   loads the provider, one that starts later, one that regenerates its state dump; then a recording by --pid.
# If it fails: baselines are missing from recordings of running processes, and analyses cannot tell anything. The hook rests
#   on a name inside lttng-ust: look there first after an update of LTTng.
# usage: integration_baseline.sh RECORDER EMITTER
set -eu
here=$(dirname "$0")
. "$here/../private_lttng.sh"
recorder=$1 emitter=$2

said_started() {
    [ "$(grep -c started "$work/said")" -ge "$1" ]
}
start_session() {
    lttng create "$1" --output="$work/$1" >/dev/null
    lttng enable-event --userspace 'rt_*' --session "$1" >/dev/null
    lttng start "$1" >/dev/null
}

lttng-sessiond --daemonize
start_session before

step "a session that is active when the provider is loaded"
mkfifo "$work/stdin"
"$emitter" serve <"$work/stdin" >"$work/said" &
emitter_pid=$!
exec 9>"$work/stdin"
wait_for grep -q loaded "$work/said"
wait_for said_started 1

step "a second session starts"
start_session after
wait_for said_started 2

step "a state dump is asked for again"
lttng regenerate statedump --session before >/dev/null
wait_for said_started 3
lttng destroy before >/dev/null
lttng destroy after >/dev/null
for session in before after; do
    babeltrace2 "$work/$session" | grep -q 'rt_process:baseline_end' || fail "no baseline in session $session"
done

step "a recording of this process alone"
"$recorder" --pid=$emitter_pid --duration=1 --output="$work/pid"
babeltrace2 "$work/pid" | grep -q 'rt_process:baseline_end' || fail "no baseline in a recording by --pid"

step "no call any more once sessions are ignored"
echo quiet >&9
wait_for grep -q quiet "$work/said"
calls=$(grep -c started "$work/said")
start_session late
lttng regenerate statedump --session late >/dev/null
lttng destroy late >/dev/null
exec 9>&-
wait $emitter_pid || fail "the program ended with status $?"
[ "$(grep -c started "$work/said")" = "$calls" ] || fail "session_started was called after tracepoints_ignore_sessions()"
