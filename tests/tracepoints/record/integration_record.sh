#!/bin/sh
# Goal: a recording ends well in every way it can end, and every fault is one line with a documented exit status.
# Method: the recorder with a real session daemon of its own and a program that emits; each way to end, each bad input.
# If it fails: a user is left with a session that goes on, a command that goes on, half a trace, or no word of what is wrong.
# usage: integration_record.sh RECORDER EMITTER
set -eu
here=$(dirname "$0")
. "$here/../private_lttng.sh"
recorder=$1 emitter=$2

# expect STATUS PATTERN ARGUMENTS...: one line of the recorder's talk matches, and it ends with that status.
expect() {
    wanted=$1 pattern=$2
    shift 2
    status=0
    "$recorder" "$@" >"$work/out" 2>"$work/talk" || status=$?
    [ $status = "$wanted" ] || fail "status $status, not $wanted: $* ($(cat "$work/talk"))"
    grep -qE -- "$pattern" "$work/talk" || fail "nothing said matches '$pattern': $(cat "$work/talk")"
}
no_session() {
    [ -z "$(lttng --no-sessiond list | grep '^ *[0-9])')" ] || fail "a session was left behind: $(lttng list)"
}

step "usage"
expect 2 "^vblkscope record: --events: no set of events is called 'lop' " --events=core,lop
expect 2 "^vblkscope record: --buffer-size: '3M' " --buffer-size=3M
expect 2 "^vblkscope record: --duration: " --duration=-1
expect 2 "^vblkscope record: .*--nonsense" --nonsense
expect 2 "^vblkscope record: --pid: a process id is above 0" --pid=-1
expect 2 "^vblkscope record: --session: " --session=a/b
"$recorder" --help >"$work/out" 2>"$work/talk" || fail "--help: status $?"
grep -q -- "--buffer-size=SIZE" "$work/out" && [ ! -s "$work/talk" ] || fail "--help does not print the options to stdout"

step "no session daemon can be started"
export LTTNG_SESSIOND_PATH=/nonexistent
expect 1 "^vblkscope record: /nonexistent: no LTTng session daemon runs.*lttng-tools" --output="$work/d"
[ ! -e "$work/d" ] || fail "a folder was left behind"
export LTTNG_SESSIOND_PATH=/bin/false
expect 1 "^vblkscope record: /bin/false: the LTTng session daemon does not start" --output="$work/d"
unset LTTNG_SESSIOND_PATH

step "a daemon is started; a command is recorded"
expect 0 "^vblkscope record: started an LTTng session daemon" --output="$work/a" -- "$emitter" every
grep -qx "  trace:  $work/a" "$work/talk" || fail "the trace's folder is not named"
grep -qx "  lost:   none" "$work/talk" || fail "no word about loss"
no_session
expect 0 "trace:" --output="$work/b" -- "$emitter" every
! grep -q "started an LTTng" "$work/talk" || fail "a second daemon was started"

step "output folders"
expect 1 "^vblkscope record: $work/a: exists and is not empty" --output="$work/a"
expect 1 "^vblkscope record: $work/x/y: No such file or directory" --output="$work/x/y"
touch "$work/file"
expect 1 "^vblkscope record: $work/file: exists and is no readable folder" --output="$work/file"
mkdir "$work/ro"
mount -t tmpfs -o ro tmpfs "$work/ro"
expect 1 "^vblkscope record: $work/ro: Read-only file system" --output="$work/ro"
expect 1 "^vblkscope record: $work/ro/t: Read-only file system" --output="$work/ro/t"
mkdir "$work/empty"
expect 0 "trace:" --output="$work/empty" -- "$emitter" every

step "processes"
expect 1 "^vblkscope record: --pid: no process 4194000" --pid=4194000 --output="$work/d"
sleep 100 &
untraced=$!
expect 1 "^vblkscope record: --pid: process $untraced offers no tracepoints" --pid=$untraced --output="$work/d"
kill $untraced
[ ! -e "$work/d" ] || fail "a folder was left behind"
expect 1 "NOTHING WAS RECORDED" --output="$work/d" -- true
[ ! -e "$work/d" ] || fail "a folder was left behind"
no_session

step "commands that fail"
expect 1 "^vblkscope record: /nonexistent: cannot run it: no such program" --output="$work/d" -- /nonexistent
[ ! -e "$work/d" ] || fail "a folder was left behind"
expect 1 "^vblkscope record: sh: ended with status 7" --output="$work/c7" -- sh -c "'$emitter' every; exit 7"
babeltrace2 "$work/c7" >/dev/null || fail "the trace of a failed command is not whole"
expect 1 "^vblkscope record: sh: ended by signal 9" --output="$work/c9" -- sh -c "'$emitter' every; kill -9 \$\$"
no_session

step "--duration ends a command, and its last event is recorded"
expect 0 "lost:   none" --events=loop --duration=0.5 --output="$work/e" -- "$emitter" until-signal
babeltrace2 "$work/e" | tail -n 1 | grep -q 'rt_loop:destroy' || fail "the command's end was not recorded"

step "signals are passed on once, and the recorder waits"
for signal in TERM INT; do
    rm -f "$work/said"
    "$recorder" --events=loop --output="$work/s$signal" -- "$emitter" until-signal >"$work/said" 2>"$work/talk" &
    recorder_pid=$!
    wait_for grep -q ready "$work/said"
    kill -$signal $recorder_pid
    wait $recorder_pid || fail "SIG$signal: status $?: $(cat "$work/talk")"
    babeltrace2 "$work/s$signal" | tail -n 1 | grep -q 'rt_loop:destroy' || fail "SIG$signal: the command's end is missing"
done
no_session

step "a recording of what runs ends with a signal, or with the process of --pid"
rm -f "$work/said"
"$emitter" until-signal >"$work/said" &
emitter_pid=$!
wait_for grep -q ready "$work/said"
"$emitter" until-signal >"$work/said2" &
other_pid=$!
wait_for grep -q ready "$work/said2"
"$recorder" --events=loop --output="$work/f" 2>"$work/talk" &
recorder_pid=$!
wait_for grep -q "recording core,loop to $work/f; Ctrl-C ends it" "$work/talk"
kill -TERM $recorder_pid
wait $recorder_pid || fail "status $?: $(cat "$work/talk")"
[ "$(babeltrace2 "$work/f" | grep -o 'vpid = [0-9]*' | sort -u | wc -l)" = 2 ] || fail "not both processes were recorded"
"$recorder" --events=loop --pid=$emitter_pid --output="$work/g" 2>"$work/talk" &
recorder_pid=$!
wait_for grep -q "recording core,loop to $work/g" "$work/talk"
kill $emitter_pid
wait $recorder_pid || fail "status $?: $(cat "$work/talk")"
[ "$(babeltrace2 "$work/g" | grep -o 'vpid = [0-9]*' | sort -u)" = "vpid = $emitter_pid" ] ||
    fail "--pid did not restrict the recording to one process"
no_session

step "a process while a command runs, until the command ends"
expect 0 "lost:   none" --events=loop --pid=$other_pid --output="$work/h" -- sh -c "'$emitter' every; sleep 0.3"
[ "$(babeltrace2 "$work/h" | grep -o 'vpid = [0-9]*' | sort -u)" = "vpid = $other_pid" ] ||
    fail "the command was recorded too, or the process was not"

step "progress on a terminal, none in a pipe"
script --quiet --return --log-out "$work/terminal" \
    --command "'$recorder' --events=loop --duration=1.5 --output='$work/p' --pid=$other_pid" >/dev/null ||
    fail "status $?: $(cat "$work/terminal")"
grep -q "1 of 1.5 s recorded" "$work/terminal" || fail "no progress on a terminal"
expect 0 "trace:" --events=loop --duration=1.5 --output="$work/q" --pid=$other_pid
! grep -q "s recorded" "$work/talk" || fail "progress in a pipe"
kill $other_pid
no_session

step "lost events are reported"
expect 0 "lost:   events of channel detail" --events=all --buffer-size=256K --output="$work/l" -- "$emitter" flood 3000000

step "a disk that fills up: the recording ends by itself and is whole"
mkdir "$work/disk"
mount -t tmpfs -o size=64m tmpfs "$work/disk"
expect 1 "the file system is nearly full: the recording was ended" \
    --events=all --buffer-size=1M --output="$work/disk/t" -- sh -c "while '$emitter' flood 100000; do sleep 0.05; done"
babeltrace2 "$work/disk/t" >/dev/null 2>&1 || fail "the trace is not whole"
[ -z "$(find "$work/disk/t" -name '.*' -type f)" ] || fail "the room set aside was left behind"
no_session

step "a disk that is full before the recorder can look: the damage is reported"
umount "$work/disk"
mount -t tmpfs -o size=4m tmpfs "$work/disk"
expect 1 "^vblkscope record: $work/disk/t: the (trace is damaged|file system is nearly full)" \
    --events=all --output="$work/disk/t" -- "$emitter" flood 3000000
no_session

step "a disk without room is refused"
dd if=/dev/zero of="$work/disk/fill" bs=64k 2>/dev/null || :
expect 1 "^vblkscope record: $work/disk/u: No space left on device" --output="$work/disk/u"
no_session

step "a session name that is taken"
lttng create taken --output="$work/taken" >/dev/null
expect 1 "^vblkscope record: taken: cannot create a session of this name: .*--session" --session=taken --output="$work/v"
lttng destroy taken >/dev/null
no_session

# record_while_killing NAME PROGRAM: all processes of this program (the namespace holds only ours) are killed while a
# recording runs, which must fail, not hang.
record_while_killing() {
    name=$1 program=$2
    rm -f "$work/said"
    "$recorder" --events=loop --output="$work/$name" -- "$emitter" until-signal >"$work/said" 2>"$work/talk" &
    recorder_pid=$!
    wait_for grep -q ready "$work/said"
    # shellcheck disable=SC2046
    kill -KILL $(pgrep "$program")
    kill -TERM $recorder_pid
    status=0
    wait $recorder_pid || status=$?
    [ $status = 1 ] || fail "status $status, not 1: $(cat "$work/talk")"
    [ "$(pgrep -c emitter)" = 0 ] || fail "the command was left behind"
}

step "LTTng's consumer is killed"
record_while_killing w lttng-consumerd
grep -q "^vblkscope record: $work/w: the trace is damaged" "$work/talk" || fail "no word of damage: $(cat "$work/talk")"
grep -qx "  lost:   cannot tell, the trace is damaged" "$work/talk" || fail "claims to know what was lost"
expect 1 "^vblkscope record: core: cannot make its buffers: .*restart lttng-sessiond" --output="$work/v"
[ "$(wc -l <"$work/talk")" = 1 ] || fail "LTTng's library talks: $(cat "$work/talk")"

step "the daemon that was started can be stopped, and another is started"
daemon_ended() {
    [ "$(pgrep -c lttng-sessiond)" = 0 ]
}
kill -TERM "$(pgrep -o lttng-sessiond)"
wait_for daemon_ended
expect 0 "started an LTTng session daemon" --output="$work/y" -- "$emitter" every

step "the session daemon is killed"
record_while_killing z lttng-sessiond
grep -q "^vblkscope record: .*cannot stop recording: .*restart lttng-sessiond" "$work/talk" ||
    fail "no word of the daemon: $(cat "$work/talk")"
