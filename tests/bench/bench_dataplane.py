#!/usr/bin/env python3
"""Goal: what the order of a start and a stop is worth: the old one (--fault=started-before-attach) beside the one in use, and
how long a start takes by the number of queues.

Method: two servers, one with the fault. vblk-load completes some requests, stops its rings and stays connected, holding their
eventfds; meanwhile the main thread's processor time is read, and the core set is recorded for its samples. Starts: a front
end sets up N rings and enables them, all together or one by one: the same messages in another order, each acknowledged.

Usage: bench_dataplane.py [--json[=FILE]] [--markdown[=FILE]] [--quick]
Programs: $VBLKD, $VBLK_LOAD, $VBLKSCOPE, $START_RINGS, $BENCH_COMPARE
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from compare import LOWER, OF_NEW, Bench
from recording import DEADLINE_S, Recording, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "virtio-blk"))
from serving import BackgroundLoad, Server, eventfd_count, thread_seconds  # noqa: E402

ABOUT = ("What the order of a device's start and stop is worth: vblkd with the old one (--fault=started-before-attach) beside "
         "the one in use; and how long a start takes.")


FAULT = "--fault=started-before-attach"
QUEUES = 2


def wait_for_stop(server, idle):
    """The rings' eventfds come within milliseconds, and those for kicks go again: what stays is that of stopped rings."""
    last, since = None, 0

    def steady():
        nonlocal last, since
        count, now = eventfd_count(server.process.pid), time.monotonic()
        if count != last:
            last, since = count, now
        return count > idle and now - since > 0.3

    wait_for(steady, DEADLINE_S, "the rings are stopped")


def after_a_stop(directory, quick, *options):
    """(percent of a processor that the main thread takes, its wasted dispatches a second, ids that the analysis finds)"""
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", f"--num-queues={QUEUES}", "--iothreads=2",
                *options) as server:
        idle = eventfd_count(server.process.pid)
        recording = Recording(directory, server.process.pid, "core")
        try:
            with BackgroundLoad(server.socket_path, f"--queues={QUEUES}", "--number-ios=1000", "--hold=600"):
                wait_for_stop(server, idle)
                begin, used = time.monotonic(), thread_seconds(server.process.pid)["main"]
                time.sleep(0.2 if quick else 2)
                share = (thread_seconds(server.process.pid)["main"] - used) / (time.monotonic() - begin)
                # Samples come once a second; two of them are needed.
                begin = time.monotonic()
                wait_for(lambda: time.monotonic() - begin > 2.2, DEADLINE_S, "samples")
                recording.stop()
            report = recording.report()
        finally:
            recording.remove()
    main = next(loop for loop in report["loops"] if loop["name"] == "main")
    wasted = main.get("idle_dispatches", 0) / (main.get("sampled_ns", 0) / 1e9 or 1)
    return 100 * share, wasted, sorted({finding["id"] for finding in report["findings"] if finding["severity"] == "error"})


def stop(bench, directory):
    group = bench.group("After a stop, the front end still holding its eventfds", "flag before notifiers", "flag after them")
    share = group.row("main thread", "% of a CPU", LOWER)
    wasted = group.row("dispatches that find nothing", "dispatches/s", LOWER)
    verdict = group.row("errors that vblkscope analyze finds", "", LOWER)
    results = bench.alternate([lambda: after_a_stop(directory, bench.quick, FAULT),
                               lambda: after_a_stop(directory, bench.quick)], 1 if bench.quick else 3)
    for old, new in zip(*results):
        share.pair(old[0], new[0])
        wasted.pair(old[1], new[1])
    old_found, new_found = ({found for _, _, ids in result for found in ids} for result in results)
    verdict.words(", ".join(sorted(old_found)) or "none", ", ".join(sorted(new_found)) or "none")
    verdict.promise("the old order is found, the new one is clean", "stale-fd" in old_found and not new_found)
    share.target(OF_NEW, 1)
    group.note("The front end kicks each ring once more after its stop, as a guest may. OLD is the order that --fault="
               "started-before-attach brings back; on a busy machine its thread gets less than a whole CPU.")


def start_ns(directory, server, order, queues, starts):
    result = subprocess.run([os.environ["START_RINGS"], server.socket_path, order, str(queues), str(starts)],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 0, result.stderr
    return float(result.stdout) / 1e3


def starts(bench, directory):
    group = bench.group("A start", "one by one", "in one transaction")
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--iothreads=2") as server:
        for queues in (1, 16, 64):
            count = 1 if bench.quick else 9
            row = group.row(f"{queues} queue{'s' if queues > 1 else ''}", "us", LOWER)
            bench.compare(row, lambda: start_ns(directory, server, "one-by-one", queues, count),
                          lambda: start_ns(directory, server, "together", queues, count), bench.pairs(7))
    group.note("From the first message about a ring to the last answer: seven messages a queue, each acknowledged, so most of the "
               "time is theirs. One by one, each ring is enabled before the next is set up, and joins the started device "
               "with a transaction of its own.")


def main():
    bench = Bench("dataplane", ABOUT)
    with tempfile.TemporaryDirectory(prefix="vblk-bench-", dir="/var/tmp") as name:
        stop(bench, pathlib.Path(name))
        starts(bench, pathlib.Path(name))
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
