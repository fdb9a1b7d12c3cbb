#!/bin/sh
# Goal: what a real LTTng session records of events that are called as QEMU's is judged: each fault is found in its process, each
#   healthy twin and both recordings of a real QEMU are silent.
# Method: a program plays stories, each as a process, all at once and in one recording; limits are lowered so that it takes
#   seconds. Then two recordings of a healthy qemu-storage-daemon.
# If it fails: QEMU's events are read by wrong names or fields, or a healthy QEMU raises an alarm.
# usage: integration_qemu.sh EMITTER VBLKSCOPE HEALTHY
set -eu
here=$(dirname "$0")
. "$here/../../tracepoints/private_lttng.sh"
emitter=$1 vblkscope=$2 healthy=$3

step "two recordings of a healthy QEMU"
python3 -m tarfile -e "$healthy" "$work" # xz is not everywhere, its library is
for trace in "$work/t1" "$work/t2_mainloop_threads"; do
    "$vblkscope" analyze "$trace" >"$work/report" || fail "status $?: $(cat "$work/report")"
    grep -q "^VERDICT: nothing found" "$work/report" || fail "$(cat "$work/report")"
    grep -q "This is a trace of QEMU" "$work/report" || fail "it does not say whose trace it is: $(cat "$work/report")"
    grep -q "not recorded by QEMU: stale-fd" "$work/report" || fail "$(cat "$work/report")"
done

step "stories"
mkdir "$work/stories"
awk -v folder="$work/stories/" '$1 == "==" { file = folder $2; next } NF && $1 !~ /^#/ { print >file }' "$here/stories"
lttng-sessiond --daemonize --no-kernel >/dev/null 2>&1 || fail "no session daemon"
wait_for lttng --quiet list
lttng create dialects --output="$work/trace" >/dev/null
lttng enable-event --userspace 'qemu:*' >/dev/null
lttng add-context --userspace --type=vpid --type=vtid --type=procname >/dev/null
lttng start >/dev/null
for story in "$work"/stories/*; do
    "$emitter" "$story" &
    echo "$! $(basename "$story")" >>"$work/processes"
done
wait
lttng destroy dialects >/dev/null

status=0
"$vblkscope" analyze --format=json --stuck-request=1s --slow-p999=1s --slow-requests-min=50 --loop-hog=1s --false-progress=100 \
    --sustained=2 --contention-min=10 "$work/trace" >"$work/report" || status=$?
[ "$status" = 1 ] || fail "status $status: $(cat "$work/report")"
python3 - "$work/report" "$work/processes" <<'END' || fail "stories were judged wrongly"
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
found = {}
for finding in report["findings"]:
    found.setdefault(finding["subject"]["process"]["pid"], []).append(finding["id"])
wrong = 0
with open(sys.argv[2], encoding="utf-8") as file:
    for line in file:
        pid, story = line.split()
        expected = [] if story.endswith("-healthy") else [story]
        if found.get(int(pid), []) != expected:
            print(f"{story}: {found.get(int(pid))}")
            wrong += 1
names = {finding["subject"].get("thread") for finding in report["findings"]}
if "io" not in names:
    print(f"threads without their names: {names}")
    wrong += 1
sys.exit(bool(wrong or report["inconclusive"]))
END
