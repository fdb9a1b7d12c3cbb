#!/bin/sh
# Goal: a recording ends whatever becomes of those that it waits for, and says whom it waited for.
# Method: LTTng's daemons, the traced process and a command are stopped by a signal or ignore one, at each point of a recording.
# If it fails: the recorder hangs for ever, in a script at night for example, and nobody knows why.
# usage: integration_stopped.sh RECORDER EMITTER
set -eu
here=$(dirname "$0")
. "$here/../private_lttng.sh"
recorder=$1 emitter=$2
export VBLKSCOPE_RECORD_WAIT=5 # longer than a busy machine needs to answer

said() {
    grep -qE -- "$1" "$work/talk" || fail "nothing said matches '$1': $(cat "$work/talk")"
}
# start_emitter: one that runs until it is told to end. $emitter_pid is its id.
start_emitter() {
    rm -f "$work/said"
    "$emitter" until-signal >"$work/said" &
    emitter_pid=$!
    wait_for grep -q ready "$work/said"
}
# start_recording ARGUMENTS...: until it records. $recorder_pid is its id.
start_recording() {
    rm -f "$work/talk" # of the one before
    "$recorder" --events=loop "$@" 2>"$work/talk" &
    recorder_pid=$!
    wait_for grep -q "recording core,loop" "$work/talk"
}
ended_with() {
    status=0
    wait "$recorder_pid" || status=$?
    [ $status = "$1" ] || fail "status $status, not $1: $(cat "$work/talk")"
}

step "usage"
status=0
VBLKSCOPE_RECORD_WAIT=soon "$recorder" --output="$work/d" 2>"$work/talk" || status=$?
[ $status = 2 ] || fail "status $status, not 2"
said "^vblkscope record: VBLKSCOPE_RECORD_WAIT: 'soon' is no number of seconds"

step "a session daemon that is stopped before the recording"
lttng-sessiond --daemonize --quiet || fail "the session daemon does not start"
sessiond=$(pgrep -o lttng-sessiond)
kill -STOP "$sessiond"
status=0
"$recorder" --output="$work/a" -- "$emitter" every 2>"$work/talk" || status=$?
[ $status = 1 ] || fail "status $status, not 1: $(cat "$work/talk")"
said "^vblkscope record: .*: cannot .*: no answer from LTTng for 5 s .*VBLKSCOPE_RECORD_WAIT"
[ ! -e "$work/a" ] || fail "a folder was left behind"
kill -CONT "$sessiond"

step "one that is stopped during it"
start_emitter
start_recording --output="$work/b"
kill -STOP "$sessiond"
kill -TERM $recorder_pid
ended_with 1
said "^vblkscope record: .*: cannot stop recording: no answer from LTTng for 5 s"
said "^vblkscope record: $work/b: kept"
[ -d "$work/b" ] && [ -z "$(find "$work/b" -name '.room*')" ] || fail "the folder is not as it should be"
kill -CONT "$sessiond"
wait_for lttng --no-sessiond destroy --all

step "a consumer daemon that is stopped"
start_recording --output="$work/c"
kill -STOP "$(pgrep -o lttng-consumerd)"
kill -TERM $recorder_pid
ended_with 1
said "^vblkscope record: .*(no answer from LTTng for 5 s|LTTng says that the last events are not written)"
kill -CONT "$(pgrep -o lttng-consumerd)"
wait_for lttng --no-sessiond destroy --all

step "a traced process that is stopped"
unset VBLKSCOPE_RECORD_WAIT # LTTng itself gives a process up, after 5 s
start_recording --output="$work/e"
kill -STOP $emitter_pid
kill -TERM $recorder_pid
ended_with 0
babeltrace2 "$work/e" >"$work/events" || fail "the trace is not whole"
grep -q 'rt_loop:' "$work/events" || fail "what came before the stop is missing"
kill -CONT $emitter_pid
kill $emitter_pid

step "a command that does not end"
rm -f "$work/talk"
"$recorder" --events=loop --duration=0.2 --output="$work/f" -- \
    sh -c "trap '' TERM; '$emitter' every; echo \$\$ >'$work/command'; while :; do sleep 0.1; done" 2>"$work/talk" &
recorder_pid=$!
wait_for grep -q "was asked to end 10 s ago and goes on.*kill -KILL" "$work/talk"
kill -KILL "$(cat "$work/command")"
ended_with 1
said "^vblkscope record: sh: ended by signal 9"
babeltrace2 "$work/f" >"$work/events" || fail "the trace is not whole"
