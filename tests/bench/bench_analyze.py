#!/usr/bin/env python3
"""Goal: what `vblkscope analyze` costs beyond decoding, what further processes gain, and how much memory it takes.

Method: vblkd with a null disk, two IOThreads, each on a processor of its own so that the trace's streams are of like size, and
vblk-load; everything is recorded. Then `babeltrace2 -o dummy` and `vblkscope analyze`, all checks on, alternating, in pairs:
first decoding and judging in one process, then decoding in two. Memory is the largest resident set of one process.

Usage: bench_analyze.py [--json[=FILE]] [--markdown[=FILE]] [--quick] [--seconds=N]
Programs: $VBLKD, $VBLK_LOAD, $VBLKSCOPE, $BENCH_COMPARE, babeltrace2
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from compare import FIGURE, HIGHER, LOWER, OF_CHANGE, OF_NEW, Bench
from recording import Recording

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "virtio-blk"))
from serving import BackgroundLoad, Server  # noqa: E402

ABOUT = ("All checks over a recording of everything, against babeltrace2 that only decodes it: events a second, "
         "alternating.")


def pin_loops(pid):
    """One IOThread on each processor, as far as there are some."""
    processors = sorted(os.sched_getaffinity(0))
    for task in os.listdir(f"/proc/{pid}/task"):
        name = pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().strip()
        if name.startswith("iothread"):
            os.sched_setaffinity(int(task), {processors[int(name.removeprefix("iothread")) % len(processors)]})


def record(directory, seconds):
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--num-queues=2", "--iothreads=2") as server:
        pin_loops(server.process.pid)
        with BackgroundLoad(server.socket_path, "--iodepth=16", "--queues=2", "--rw=randrw", f"--runtime={seconds + 60}"):
            recording = Recording(directory, server.process.pid, "all")
            try:
                time.sleep(seconds)
                recording.stop()
            except BaseException:
                recording.remove()
                raise
    return recording


def run(*command):
    """(seconds, MiB of the largest process)"""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    # 1 and 3 are verdicts; 2 would be an unreadable trace
    assert process.returncode in ((0, 1, 3) if command[1] == "analyze" else (0,)), (command, process.returncode)
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def compare(bench, recording, events):
    memory = bench.group("Memory", None, "vblkscope analyze", FIGURE)
    for jobs, title, bound in ((1, "Decoding and judging in one process", -30), (2, "Decoding in two processes", 30)):
        group = bench.group(title, "babeltrace2 -o dummy", f"analyze --jobs={jobs}")
        row = group.row("rate", "events/s", HIGHER)
        largest = memory.row(f"largest process with --jobs={jobs}", "MiB", LOWER)
        pairs = zip(*bench.alternate([lambda: run("babeltrace2", "-o", "dummy", str(recording.path)),
                                      lambda jobs=jobs: run(os.environ["VBLKSCOPE"], "analyze", f"--jobs={jobs}",
                                                            str(recording.path))], bench.pairs(3)))
        for (dummy_s, _), (analyze_s, mebibytes) in pairs:
            row.pair(events / dummy_s, events / analyze_s)
            largest.value(mebibytes)
        row.target(OF_CHANGE, bound)
        largest.target(OF_NEW, 300)
    memory.note(f"{events / 1e6:.1f} million events, {sum(path.stat().st_size for path in recording.streams()) >> 20} MiB on disk")


def main():
    bench = Bench("analyze", ABOUT, lambda parser: parser.add_argument("--seconds", type=float, default=30,
                                                                       help="length of the recording (default 30)"))
    for program in ("lttng-sessiond", "babeltrace2"):
        if not shutil.which(program):
            print(f"{program} is not installed (apt-get install lttng-tools babeltrace2)")
            return 77
    with tempfile.TemporaryDirectory(prefix="vblk-bench-", dir="/var/tmp") as name:
        recording = record(pathlib.Path(name), 0.2 if bench.quick else bench.options.seconds)
        try:
            compare(bench, recording, recording.events())
        finally:
            recording.remove()
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
