#!/bin/sh
# The device healthy and with a historical mistake: served, loaded, recorded, and judged. `vblkscope demo` runs this.
#
# Usage: vblkscope demo [--guest] [--output=DIRECTORY]
#   --guest             load the device from a Linux guest under QEMU instead of with vblk-load
#   --output=DIRECTORY  where recordings and reports go (default: a new directory in $TMPDIR or /tmp, kept)
#   --help              this text
#
# Exit status: 0 the healthy device was found healthy and the fault was found, 1 not so, 2 usage.
#
# Programs come from the environment variables VBLKD, VBLK_LOAD and VBLKSCOPE, which vblkscope sets to those beside
# itself, the guest's scripts from VBLKSCOPE_GUEST, and its kernel and initramfs are kept in VBLK_GUEST_IMAGE.
set -u

FAULT=started-before-attach
# A machine that is busy with other things must not look like a fault of the device: nothing here is a matter of speed.
LIMITS="--loop-hog=5s --slow-p999=5s --late-wakeup=5s"

usage() { sed -n '2,/^# itself,/s/^# \{0,1\}//p' "$0" | sed '/^Programs come/,$d'; }
say() { echo "vblkscope demo: $*" >&2; }

guest=
output=
for argument; do
    case $argument in
    --guest) guest=yes ;;
    --output=?*) output=${argument#--output=} ;;
    --help) usage; exit 0 ;;
    *) say "$argument: not an option (see vblkscope demo --help)"; exit 2 ;;
    esac
done
: "${VBLKD:=vblkd}" "${VBLK_LOAD:=vblk-load}" "${VBLKSCOPE:=vblkscope}" "${VBLKSCOPE_GUEST:=}"
: "${VBLK_GUEST_IMAGE:=${XDG_CACHE_HOME:-$HOME/.cache}/vblkscope/guest}"

if [ -n "$output" ]; then
    mkdir -p "$output" || exit 1
    output=$(cd "$output" && pwd)
    [ ! -e "$output/healthy" ] && [ ! -e "$output/fault" ] ||
        { say "$output: holds an earlier demo (choose another --output)"; exit 1; }
else
    output=$(mktemp -d "${TMPDIR:-/tmp}/vblkscope-demo.XXXXXX") || exit 1
fi
# A socket's path is short by law (108 bytes); the output directory's need not be.
run=$(mktemp -d /tmp/vblkscope-run.XXXXXX) || exit 1
server=
recorder=
# stop SIGNAL PROCESS: end a process, at most in ten seconds; its exit status (137: it had to be killed).
stop() {
    kill "-$1" "$2" 2>/dev/null
    tries=100
    while kill -0 "$2" 2>/dev/null && [ $tries -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    kill -KILL "$2" 2>/dev/null
    wait "$2"
}

end() {
    [ -z "$recorder" ] || stop INT "$recorder"
    [ -z "$server" ] || stop TERM "$server"
    rm -rf "$run"
}
trap end EXIT
trap 'exit 1' HUP INT TERM

fail() {
    say "$*"
    say "what there is: $output"
    exit 1
}

# The kernel's list of sockets, because connecting would use up the one connection that the device serves.
listening() {
    awk -v path="$1" '$NF == path && $4 == "00010000" { found = 1 } END { exit !found }' /proc/net/unix
}

# Poll for a condition, at most half a minute.
wait_until() {
    tries=300
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.1
    done
}

# serve_and_record NAME [OPTION]...: leaves $output/NAME/trace, recorded from before the load until after it.
serve_and_record() {
    place=$output/$1
    shift
    mkdir "$place" || exit 1
    socket=$run/disk.sock
    truncate -s 64M "$run/disk.img" || fail "no room for a disk in $run"
    "$VBLKD" --socket-path="$socket" --name=disk0 --blk-file="$run/disk.img" --num-queues=2 --iothreads=2 "$@" \
        2>"$place/vblkd.log" &
    server=$!
    wait_until listening "$socket" || { cat "$place/vblkd.log" >&2; fail "vblkd did not start"; }

    if [ -n "$guest" ]; then
        set -- python3 "$VBLKSCOPE_GUEST/guest_load.py" --socket-path="$socket" --image="$VBLK_GUEST_IMAGE" \
            --log="$place"
    else
        # Stopping and starting is where the mistake is; the hold leaves time in which nothing is to be done. A number
        # of requests bounds the recording, so that no event is lost on a small or busy machine.
        set -- "$VBLK_LOAD" --socket-path="$socket" --rw=randrw --bs=4K --iodepth=16 --queues=2 --number-ios=40000 \
            --restarts=1 --hold=1
    fi
    say "recording while ${guest:+a guest boots and }the load runs"
    "$VBLKSCOPE" record --output="$place/trace" --events=core,loop,request --pid="$server" -- "$@" \
        >"$place/load.log" 2>&1 &
    recorder=$!
    wait "$recorder"
    status=$?
    recorder=
    [ $status -eq 0 ] || { cat "$place/load.log" >&2; fail "load or recording failed (status $status)"; }
    stop TERM "$server"
    status=$?
    server=
    [ $status -eq 0 ] || { cat "$place/vblkd.log" >&2; fail "vblkd ended with status $status"; }
}

# analyze NAME EXPECTED-STATUS: leaves report.txt and report.json beside the trace and prints the text.
analyze() {
    place=$output/$1
    # $LIMITS is a list.
    # shellcheck disable=SC2086
    "$VBLKSCOPE" analyze "$place/trace" $LIMITS --output="$place/report.txt"
    status=$?
    # shellcheck disable=SC2086
    "$VBLKSCOPE" analyze "$place/trace" $LIMITS --format=json --output="$place/report.json"
    [ $? -eq $status ] || fail "the text report and the JSON report disagree"
    cat "$place/report.txt"
    [ $status -eq "$2" ] || fail "expected exit status $2 of the analysis, got $status"
}

heading() { printf '\n==== %s\n\n' "$*"; }

if [ -n "$guest" ]; then
    sh "$VBLKSCOPE_GUEST/build-image.sh" "$VBLK_GUEST_IMAGE" || fail "no guest could be made in $VBLK_GUEST_IMAGE"
fi

heading "1 of 2: a healthy device, loaded, stopped and started"
serve_and_record healthy
analyze healthy 0

heading "2 of 2: the same with --fault=$FAULT"
serve_and_record fault "--fault=$FAULT"
analyze fault 1
grep -q '"id": *"stale-fd"' "$output/fault/report.json" || fail "the fault was not found: no stale-fd"

heading "As it should be: nothing found, then stale-fd"
for name in healthy fault; do
    echo "$output/$name: trace/ report.txt report.json vblkd.log load.log"
done
