#!/usr/bin/env python3
"""Goal: how vblkd compares with qemu-storage-daemon, request by request, unrecorded and recorded.

Method: both servers with the same disk, there at once, and loaded in turn by the same front end (vblk-load), again and again:
what the machine does meanwhile meets both. The servers' threads are pinned to the first CPU, everything else to the second.
Each server has one IOThread. Processor time is that of the whole server process.

Usage: bench_peer.py [--json[=FILE]] [--markdown[=FILE]] [--quick] [--only=PART,...]
Programs: qemu-storage-daemon; $VBLKD, $VBLK_LOAD, $VBLKSCOPE, $BENCH_COMPARE
"""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
import time

from compare import HIGHER, LOWER, OF_CHANGE, Bench
from recording import Recording

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "virtio-blk" / part) for part in ("", "load")]
from serving import Server, load  # noqa: E402
from storage_daemon import StorageDaemon, require_daemon  # noqa: E402

ABOUT = ("vblkd and qemu-storage-daemon with the same disk, loaded in turn by the same front end, vblk-load. One IOThread each, on the "
         "first CPU; the front end on the second. Processor time is that of the whole server process.")
QEMU, OURS = "qemu-storage-daemon", "vblkd"
CPUS = sorted(os.sched_getaffinity(0))
DISK_BYTES = 256 << 20
BUFFERS_BYTES = 64 << 20  # those of high-rate events on a CPU, as `vblkscope record` makes them
PATTERNS = {"4 KiB random reads": ("--rw=randread", "--bs=4K"), "4 KiB random writes": ("--rw=randwrite", "--bs=4K"),
            "128 KiB random reads": ("--rw=randread", "--bs=128K")}
# How both sides find out that there is something to do: (options of vblkd, of QEMU's IOThread, of vblk-load).
MODES = {"interrupts": ((), "", ()), "polling": (("--poll-max-ns=1000000",), "poll-max-ns=1000000", ("--poll",))}
ABOUT_MODES = {"interrupts": "Both servers as they are by default (vblkd polls for up to 200 us before it sleeps, qemu-storage-daemon for "
                             "up to 33); the front end sleeps until it is interrupted.",
               "polling": "Both servers poll for up to 1 ms before they sleep; the front end polls, and wants no interrupts. Of two "
                          "queues each has a thread, and both share the second CPU."}


class Run:
    """What all parts need: the benchmark, a directory, images, how long to measure."""

    def __init__(self, bench, directory):
        self.bench, self.directory = bench, directory
        self.seconds = 0.03 if bench.quick else 0.3
        self.count = 0
        self.images = {}

    def pairs(self, usual):
        return 1 if self.bench.quick else usual

    def own_directory(self):
        self.count += 1
        directory = self.directory / str(self.count)
        directory.mkdir()
        return directory

    def image(self, server):
        """Of its own for each server, since both lock theirs. All of it is written, so that it is in the page cache."""
        if server not in self.images:
            self.images[server] = self.directory / f"image-{server}"
            block = os.urandom(1 << 20)
            with open(self.images[server], "wb") as image:
                for _ in range((DISK_BYTES if not self.bench.quick else 4 << 20) >> 20):
                    image.write(block)
                os.fsync(image.fileno())
        return self.images[server]

    @contextlib.contextmanager
    def qemu(self, disk, queues, iothread=""):
        blockdev = f"driver=null-co,read-zeroes=off,size={1 << 30}" if disk == "null" else "driver=file,aio=io_uring"
        image = None if disk == "null" else self.image("qemu")
        with StorageDaemon(self.own_directory(), image, queues, blockdev=blockdev, iothread=iothread) as daemon:
            pin(daemon.process.pid)
            yield daemon

    @contextlib.contextmanager
    def ours(self, disk, queues, *options):
        directory = self.own_directory()
        with Server(directory, f"--socket-path={directory}/socket", f"--num-queues={queues}",
                    f"--blk-file={'null:1G' if disk == 'null' else self.image('vblkd')}", *options) as server:
            pin(server.process.pid)
            yield server

    def measure(self, server, *options, seconds=None):
        """{"rate", "p50", "p99", "processor"}, or what there is of them."""
        clock = ~server.process.pid << 3 | 2  # clock_getcpuclockid(3)
        before, result = time.clock_gettime_ns(clock), {"total_ios": 0}
        while result["total_ios"] == 0:  # on a busy machine a short moment may bring nothing
            result = load(server.socket_path, *options, f"--runtime={seconds or self.seconds}")
        percentile = result["lat_ns"]["percentile"]
        return {"rate": result["iops"], "p50": percentile["50.000000"], "p99": percentile["99.000000"],
                "processor": (time.clock_gettime_ns(clock) - before) / result["total_ios"]}


def pin(pid):
    if len(CPUS) > 1:
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {CPUS[0]})


class Tables:
    """Two groups with the same rows: rates, which have targets, and what else there is to a request, in detail."""

    DETAILS = {"p50": ("median latency", "ns"), "p99": ("99th percentile", "ns"), "processor": ("processor time", "ns")}

    def __init__(self, bench, title, old, new, note):
        self.rates = bench.group(f"{title}: requests a second", old, new)
        self.rates.note(note)
        self.rest = bench.group(f"{title}: latency and processor time", old, new)
        self.rest.detail()

    def add(self, name, old, new, target=None):
        """@old, @new: what measure() gave, in pairs. @target: the rate's change in percent."""
        row = self.rates.row(name, "requests/s", HIGHER)
        for old_one, new_one in zip(old, new):
            row.pair(old_one["rate"], new_one["rate"])
        if target is not None:
            row.target(OF_CHANGE, target)
        for key, (what, unit) in self.DETAILS.items():
            row = self.rest.row(f"{name}: {what}", unit, LOWER)
            for old_one, new_one in zip(old, new):
                row.pair(old_one[key], new_one[key])


def depth_and_queues(depth, queues):
    return f"depth {depth}, {queues} {'queue' if queues == 1 else 'queues'}"


def points(run):
    """Every combination of disk, pattern, depth, queues and mode."""
    depths, all_queues = ((1,), (1,)) if run.bench.quick else ((1, 8, 32, 64), (1, 2))
    for disk in ("null", "file"):
        for mode, (our_options, iothread, load_options) in MODES.items():
            tables = Tables(run.bench, f"{disk} disk, {mode}", QEMU, OURS, ABOUT_MODES[mode])
            for queues in all_queues:
                with run.qemu(disk, queues, iothread) as qemu, run.ours(disk, queues, *our_options) as ours:
                    for pattern, pattern_options in list(PATTERNS.items())[:1 if run.bench.quick else None]:
                        for depth in depths:
                            options = (*pattern_options, *load_options, f"--iodepth={depth}", f"--queues={queues}")
                            measured = run.bench.alternate([lambda: run.measure(qemu, *options), lambda: run.measure(ours, *options)],
                                                           run.pairs(5))
                            ahead = disk == "null" and (depth == 1 or queues == 2)
                            tables.add(f"{pattern}, {depth_and_queues(depth, queues)}", *measured, target=50 if ahead else 0)


class NotRecorded:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Recorded:
    """Where virtual machines have shadow page tables, the first writing to each page of a recording's buffers takes microseconds: that
    is once a recording, so events go once through all of them (@warm) before anything is measured."""

    def __init__(self, run, server, sets, warm=False):
        self.recording = Recording(run.directory, server.process.pid, sets)
        try:
            while warm and not run.bench.quick and sum(path.stat().st_size for path in self.recording.streams()) < BUFFERS_BYTES:
                run.measure(server, "--rw=randread", "--iodepth=32")
        except BaseException:
            self.recording.remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.recording.stop()
        self.recording.remove()
        os.sync()  # the next one is not to be measured while this one's trace is written or forgotten


def recorded(run):
    """What recording costs, and whether a device of which everything is recorded is still ahead of one of which nothing is."""
    if not shutil.which("lttng-sessiond"):
        run.bench.group("Recorded", OURS, "recorded").row("requests", "requests/s", HIGHER).unavailable(
            "lttng-sessiond is not installed (apt-get install lttng-tools)")
        return
    depths = (1,) if run.bench.quick else (1, 32)

    def sample(server, recording=NotRecorded):
        with recording():
            return [run.measure(server, "--rw=randread", f"--iodepth={depth}", seconds=2 * run.seconds) for depth in depths]

    with run.qemu("null", 1) as qemu, run.ours("null", 1, "--no-tracing") as bare, run.ours("null", 1) as ours:
        rows = {QEMU: lambda: sample(qemu), "without tracepoints": lambda: sample(bare), "not recorded": lambda: sample(ours),
                "core recorded": lambda: sample(ours, lambda: Recorded(run, ours, "core")),
                "everything recorded": lambda: sample(ours, lambda: Recorded(run, ours, "all", warm=True))}
        measured = dict(zip(rows, run.bench.alternate(list(rows.values()), run.pairs(9))))
    for old, new, target in (("without tracepoints", "not recorded", None), ("not recorded", "core recorded", -2),
                             ("not recorded", "everything recorded", None), (QEMU, "not recorded", 0), (QEMU, "core recorded", 0),
                             (QEMU, "everything recorded", 0)):
        tables = Tables(run.bench, f"Recording, {old} against {new}", old, new,
                        "vblkd, null disk, 4 KiB random reads, one queue, interrupts." if old != QEMU else
                        "Null disk, 4 KiB random reads, one queue, interrupts; of qemu-storage-daemon nothing is recorded.")
        for at, depth in enumerate(depths):
            tables.add(depth_and_queues(depth, 1), *([round_[at] for round_ in measured[side]] for side in (old, new)), target=target)


def busy(run):
    """A core of its own for the device, and a front end that polls for completions."""
    targets = {1: 1400, 32: 300}
    tables = Tables(run.bench, "Busy polling", QEMU, "vblkd --busy-poll",
                    "Null disk, 4 KiB random reads, one queue; the front end polls. vblkd never sleeps; qemu-storage-daemon as it is by "
                    "default. +1,400 % are 15 times, +300 % 4 times, +600 % 7 times.")
    with run.qemu("null", 1) as qemu, run.ours("null", 1, "--busy-poll") as ours:
        for depth in (1,) if run.bench.quick else (1, 8, 32, 64):
            options = ("--rw=randread", "--poll", f"--iodepth={depth}")
            measured = run.bench.alternate([lambda: run.measure(qemu, *options), lambda: run.measure(ours, *options)], run.pairs(9))
            tables.add(depth_and_queues(depth, 1), *measured, target=targets.get(depth))


PARTS = {"points": points, "recorded": recorded, "busy": busy}


def main():
    bench = Bench("peer", ABOUT, lambda parser: parser.add_argument("--only", metavar="PART,...", default=",".join(PARTS),
                                                                    help=f"of {', '.join(PARTS)}"))
    require_daemon()
    if len(CPUS) > 1:
        os.sched_setaffinity(0, CPUS[1:2])  # and whatever is started from here; servers are pinned when they are there
    with tempfile.TemporaryDirectory(prefix="vblk-bench-", dir="/var/tmp") as name:
        run = Run(bench, pathlib.Path(name))
        for part in bench.options.only.split(","):
            PARTS[part](run)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
