#!/usr/bin/env python3
"""Goal: what recording costs a device at full speed, and what it yields.

Method: vblkd with a null disk and vblk-load at depth 32. First a recording of all sets: events a second, bytes an event and
events lost. (Bytes an event come from a short recording that is decoded; the long one is only measured, because decoding
takes longer than recording.) Then the request rate and the device's processor time a request, without recording and with the
core set, without and with all sets, in pairs, alternating. On a machine that does other things meanwhile only the processor
time says something.

Usage: bench_record.py [--json[=FILE]] [--markdown[=FILE]] [--quick] [--seconds=N]
Programs: $VBLKD, $VBLK_LOAD, $VBLKSCOPE, $BENCH_COMPARE
"""

import pathlib
import shutil
import sys
import tempfile
import time

from compare import FIGURE, HIGHER, LOWER, OF_NEW, Bench
from recording import DEADLINE_S, Recording, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "virtio-blk"))
from serving import BackgroundLoad, Server, load, thread_seconds  # noqa: E402

ABOUT = ("What recording costs a device at full speed: vblkd with a null disk, one queue, 4 KiB random reads at depth 32; "
         "untraced and recorded in turn.")
SHORT_BYTES = 16 << 20
LOAD = ("--iodepth=32", "--rw=randread")


def full_speed(bench, directory, server, seconds):
    pid = server.process.pid
    with BackgroundLoad(server.socket_path, *LOAD, f"--runtime={seconds + 60}"):
        short = Recording(directory, pid, "all")
        try:
            wait_for(lambda: sum(path.stat().st_size for path in short.streams()) > (SHORT_BYTES if not bench.quick else 0),
                     DEADLINE_S, "a short trace")
        finally:
            short.stop()
    try:
        bytes_per_event = short.bytes()[0] / short.events()
    finally:
        short.remove()
    with BackgroundLoad(server.socket_path, *LOAD, f"--runtime={seconds + 60}"):
        long = Recording(directory, pid, "all")
        begin = time.monotonic()
        try:
            time.sleep(seconds)
            lasted = time.monotonic() - begin
            long.stop()
            content, lost = long.bytes()
        finally:
            long.remove()
    group = bench.group(f"Everything recorded for {seconds:g} s", None, "vblkd", FIGURE)
    group.row("events", "events/s", HIGHER).value(content / bytes_per_event / lasted)
    group.row("an event on disk", "bytes", LOWER).value(bytes_per_event)
    group.row("trace", "MB/s", LOWER).value(content / lasted / 1e6)
    row = group.row("events lost", "", LOWER)
    row.value(lost)
    row.target(OF_NEW, 0)


def measure(server, seconds):
    """(requests a second, the IOThread's processor time in ns a request)"""
    before = thread_seconds(server.process.pid)["iothread0"]
    result = load(server.socket_path, *LOAD, f"--runtime={seconds}")
    used = thread_seconds(server.process.pid)["iothread0"] - before
    return result["iops"], used * 1e9 / result["total_ios"]


def measure_recorded(directory, server, sets, seconds):
    recording = Recording(directory, server.process.pid, sets)
    try:
        result = measure(server, seconds)
        recording.stop()
        return result
    finally:
        recording.remove()


def rates(bench, directory, server, seconds):
    for sets, label in (("core", "core recorded"), ("all", "everything recorded")):
        group = bench.group("A request", "untraced", label)
        rate, cost = group.row("rate", "requests/s", HIGHER), group.row("the device's processor time", "ns", LOWER)
        pairs = zip(*bench.alternate([lambda: measure(server, seconds),
                                      lambda: measure_recorded(directory, server, sets, seconds)], 1 if bench.quick else 5))
        for (old_rate, old_cost), (new_rate, new_cost) in pairs:
            rate.pair(old_rate, new_rate)
            cost.pair(old_cost, new_cost)


def main():
    bench = Bench("record", ABOUT, lambda parser: parser.add_argument("--seconds", type=float, default=10,
                                                                      help="length of the long recording (default 10)"))
    if not shutil.which("lttng-sessiond"):
        print("lttng-sessiond is not installed (apt-get install lttng-tools)")
        return 77
    with tempfile.TemporaryDirectory(prefix="vblk-bench-", dir="/var/tmp") as name:
        directory = pathlib.Path(name)
        with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--num-queues=1") as server:
            full_speed(bench, directory, server, 0.2 if bench.quick else bench.options.seconds)
            rates(bench, directory, server, 0.1 if bench.quick else 1)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
