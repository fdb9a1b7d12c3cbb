#!/bin/sh
# Goal: a live session is judged while it is recorded: the filter tells a fault before the session ends, the sink when it has ended.
# Method: sessions at a real relay daemon record processes with a fault; babeltrace2 reads one with the filter, one with the sink.
# If it fails: "try again" and inactivity of a live source are not passed on, and whoever waits for a fault hears of it too late.
# usage: integration_live.sh EMITTER PLUGINS
set -eu
here=$(dirname "$0")
. "$here/../../tracepoints/private_lttng.sh"
emitter=$1 plugins=$2
command -v lttng-relayd >/dev/null || { echo "skipped: lttng-relayd is not installed"; exit 77; }
awk '$1 == "==" { wanted = $2 == "lock-across-yield"; next } wanted' "$here/../dialects/stories" >"$work/story"
[ -s "$work/story" ] || fail "there is no such story"

step "daemons"
# Ports are the machine's: some that nobody listens at.
# shellcheck disable=SC2046
set -- $(python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))')
control=$1 data=$2 live=$3
lttng-relayd --control-port="tcp://127.0.0.1:$control" --data-port="tcp://127.0.0.1:$data" --live-port="tcp://127.0.0.1:$live" \
    --output="$work/relayed" >"$work/relayd" 2>&1 &
lttng-sessiond --daemonize --no-kernel >/dev/null 2>&1 || fail "no session daemon"
wait_for lttng --quiet list
listens() {
    python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$1"
}
wait_for listens "$live"
# start_session NAME: it records what is emitted from here on.
start_session() {
    lttng create "$1" --live=200000 --ctrl-url="tcp://127.0.0.1:$control" --data-url="tcp://127.0.0.1:$data" >/dev/null ||
        fail "no session: $(cat "$work/relayd")"
    lttng enable-event --userspace 'qemu:*' >/dev/null
    lttng add-context --userspace --type=vpid --type=vtid --type=procname >/dev/null
    lttng start >/dev/null
}
# read_session NAME ARGUMENTS...: in the background, until the session is destroyed. $reader_pid is its id.
read_session() {
    inputs="inputs=[\"net://127.0.0.1:$live/host/$(uname -n)/$1\"],session-not-found-action=\"end\""
    shift
    stdbuf -oL babeltrace2 --plugin-path="$plugins" --component=source.ctf.lttng-live --params="$inputs" "$@" \
        >"$work/events" 2>"$work/errors" &
    reader_pid=$!
}

step "the filter tells a fault while the session is recorded"
start_session live-filter
read_session live-filter -c flt.vblk.findings -p preview-interval-ns=100000000 -c sink.text.pretty
# A reader sees what comes after it has joined: the fault happens again, in another process, until it was told.
told() {
    "$emitter" "$work/story"
    kill -0 $reader_pid || fail "the reader ended: $(cat "$work/errors")"
    grep -q 'vblk:finding: .*id = "lock-across-yield"' "$work/events"
}
wait_for told
"$emitter" "$work/story" &
last_pid=$!
wait $last_pid
lttng destroy live-filter >/dev/null
wait $reader_pid || fail "status $?: $(cat "$work/errors")"
python3 - $last_pid "$work/events" <<'END' || fail "the findings differ from what was recorded"
import re
import sys

last = sys.argv[1]
with open(sys.argv[2], encoding="utf-8") as file:
    lines = file.read().splitlines()
yields = {match[1] for match in map(re.compile(r"qemu:qemu_coroutine_yield: .*vpid = (\d+)").search, lines) if match}
told = [match[1] for match in map(re.compile(r'vblk:finding: .*\\"pid\\":(\d+)').search, lines) if match]
assert len(told) == len(set(told)), f"told twice: {told}"
assert last in told and set(told) <= yields, f"last {last}, processes {yields}, told of {told}"
END

step "the sink tells it when the session has ended"
# One does not see when it has joined: another session, with more to see, until it has.
rounds=0
reported() {
    rounds=$((rounds + 1))
    rm -f "$work/report"
    start_session live-sink-$rounds
    read_session live-sink-$rounds -c sink.vblk.report -p "format=\"json\",output=\"$work/report\""
    for _ in $(seq $((20 * rounds))); do
        "$emitter" "$work/story"
    done
    lttng destroy live-sink-$rounds >/dev/null
    wait $reader_pid || fail "status $?: $(cat "$work/errors")"
    grep -q '"id": "lock-across-yield"' "$work/report"
}
wait_for reported
