#!/usr/bin/env python3
"""Goal: what each policy of vblkd is worth to a guest: requests a second and processor time a request.

Method: one vblkd for each policy, all with a null disk, all there at once; vblk-load drives one after the other for a moment, again
and again, so that whatever else the machine does meets all. The processor time is that of the server's IOThreads. With two CPUs
or more the server runs on the first and the load on the second, where one IOThread is enough; what needs several
IOThreads is left to the scheduler.

Usage: bench_device.py [--json[=FILE]] [--markdown[=FILE]] [--quick] [--only=PART,...]
Programs: $VBLKD, $VBLK_LOAD, $VBLKSCOPE, $BENCH_COMPARE
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

from compare import HIGHER, LOWER, OF_CHANGE, Bench
from recording import DEADLINE_S, Recording

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "virtio-blk"))
from serving import Server, load, thread_seconds  # noqa: E402

ABOUT = ("What each policy of vblkd is worth: null disk, 4 KiB random reads, a server for each policy, loaded in turn. Processor "
         "time is that of the server's IOThreads.")
PINNED = len(os.sched_getaffinity(0)) > 1
HOW_PINNED = ("One queue, one IOThread; the server on the first CPU, the load on the second." if PINNED else
              "One queue, one IOThread; server and load share the only CPU.")
NOT_PINNED = f"Server and load share {len(os.sched_getaffinity(0))} CPUs; nothing is pinned."
LOAD_PINNED = ("--cpu=1",) if PINNED else ()


class Missing(Exception):
    """This vblkd, or this kernel, does not have what is to be compared; str() says what."""


class Run:
    """What all parts need: the benchmark, a directory, how long to measure."""

    def __init__(self, bench, directory):
        self.bench, self.directory = bench, directory
        self.seconds = 0.05 if bench.quick else 0.6
        self.help = subprocess.run([os.environ["VBLKD"], "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                                   text=True).stdout
        self.count = 0

    def pairs(self, usual):
        return 1 if self.bench.quick else usual

    def server(self, *options):
        for option in options:
            name = option.partition("=")[0]
            if name not in self.help:
                raise Missing(f"this vblkd has no {name}")
        self.count += 1
        socket = f"socket-{self.count}"
        return Server(self.directory, f"--socket-path={self.directory}/{socket}", "--blk-file=null:1G", *options,
                      sockets=(socket,))

    @contextlib.contextmanager
    def servers(self, policies, common, pinned):
        """{policy: Server} for {policy: option}."""
        with contextlib.ExitStack() as stack:
            running = {}
            for policy, option in policies.items():
                server = self.server(option, *common)
                try:
                    running[policy] = stack.enter_context(server)
                except AssertionError as problem:
                    raise Missing(str(problem).strip().splitlines()[-1]) from problem
                if pinned and PINNED:
                    for task in os.listdir(f"/proc/{server.process.pid}/task"):
                        os.sched_setaffinity(int(task), {min(os.sched_getaffinity(0))})
            yield running

    def measure(self, server, *options):
        """(requests a second, processor time of the IOThreads in ns a request)"""
        before, result = iothread_seconds(server), {"total_ios": 0}
        while result["total_ios"] == 0:  # on a busy machine a short moment may bring nothing
            result = load(server.socket_path, *options, f"--runtime={self.seconds}")
        return result["iops"], (iothread_seconds(server) - before) * 1e9 / result["total_ios"]

    def in_turn(self, servers, rounds, *options):
        """{policy: [(rate, cost)]}"""
        samples = [lambda server=server: self.measure(server, *options) for server in servers.values()]
        return dict(zip(servers, self.bench.alternate(samples, rounds)))

    def recorded(self, server, *options):
        """What `vblkscope analyze` says of a load of which only the core set is recorded."""
        seconds = 0.05 if self.bench.quick else 2
        # Samples come once a second: one that knows of the whole load is needed.
        recording = Recording(self.directory, server.process.pid, "core", f"--duration={seconds + 1.5}")
        try:
            load(server.socket_path, *options, f"--runtime={seconds}")
            recording.process.wait(DEADLINE_S)
            return recording.report()
        finally:
            recording.remove()


def iothread_seconds(server):
    return sum(used for name, used in thread_seconds(server.process.pid).items() if name.startswith("iothread"))


def add_rows(group, name, old, new, target=None):
    """A row for the rate and one for the cost; the target is the rate's change in percent."""
    rate, cost = group.row(f"{name}: rate", "requests/s", HIGHER), group.row(f"{name}: processor time", "ns", LOWER)
    for (old_rate, old_cost), (new_rate, new_cost) in zip(old, new):
        rate.pair(old_rate, new_rate)
        cost.pair(old_cost, new_cost)
    if target is not None:
        rate.target(OF_CHANGE, target)


def compare_policies(run, title, option, pairs_of_policies, depths, rounds, targets=None):
    """One group for each (old, new) in @pairs_of_policies; a row pair for each depth."""
    policies = {policy: f"{option}={policy}" for pair in pairs_of_policies for policy in pair}
    groups = [run.bench.group(title, old, new) for old, new in pairs_of_policies]
    try:
        with run.servers(policies, ("--num-queues=1",), pinned=True) as servers:
            for depth in depths:
                measured = run.in_turn(servers, rounds, f"--iodepth={depth}", *LOAD_PINNED)
                for group, (old, new) in zip(groups, pairs_of_policies):
                    add_rows(group, f"depth {depth}", measured[old], measured[new], (targets or {}).get((old, new)))
        for group in groups:
            group.note(HOW_PINNED)
    except Missing as missing:
        for group in groups:
            group.row(title, "", LOWER).unavailable(str(missing))


# ---- the parts ----


def pool(run):
    """The batched pool must lose nothing against the one that it replaced."""
    depths = (1,) if run.bench.quick else (1, 8, 32, 64)
    compare_policies(run, "Coroutine pool", "--coroutine-pool", (("per-thread", "batched"), ("none", "batched")), depths,
                     run.pairs(5), {("per-thread", "batched"): -1})


def guard(run):
    compare_policies(run, "Stack guard", "--stack-guard", (("mprotect", "lightweight"),), (32,), run.pairs(5))


def monitor(run):
    depths = (1,) if run.bench.quick else (1, 32)
    compare_policies(run, "Loop monitor", "--loop-monitor", (("epoll", "io_uring"),), depths, run.pairs(7))


def notify(run):
    """One queue hardly notifies: a null disk completes in its own loop. Loops that hand a lock to each other do."""
    policies = {policy: f"--notify={policy}" for policy in ("always", "blocking-only")}
    group = run.bench.group("Notify while polling", *policies)
    try:
        with run.servers(policies, ("--num-queues=1", "--poll-max-ns=1000000"), pinned=True) as servers:
            measured = run.in_turn(servers, run.pairs(7), "--iodepth=1", *LOAD_PINNED)
        add_rows(group, "depth 1", *measured.values())
        options = ("--queues=2", "--iodepth=16")
        common = ("--num-queues=2", "--iothreads=2", "--poll-max-ns=1000000", "--request-lock=coroutine")
        with run.servers(policies, common, pinned=False) as servers:
            measured = run.in_turn(servers, run.pairs(7), *options)
            add_rows(group, "2 loops, one coroutine lock", *measured.values())
            writes = group.row("2 loops, one coroutine lock: eventfd writes a notify", "", LOWER)
            needless = group.row("2 loops, one coroutine lock: of these while polling", "", LOWER)
            recordings = run.bench.alternate([lambda server=server: notifies(run.recorded(server, *options))
                                              for server in servers.values()], run.pairs(3))
            for old, new in zip(*recordings):
                writes.pair(old[0], new[0])
                needless.pair(old[1], new[1])
        group.note("Polling for up to 1 ms. Depth 1: one queue, one IOThread, "
                   + ("server on the first CPU, load on the second. " if PINNED else "one CPU for server and load. ")
                   + "2 loops: " + NOT_PINNED.lower() + " A null disk completes in its own loop, which needs no notify: loops "
                   "that hand a lock to each other notify.")
    except Missing as missing:
        group.row("notify", "", LOWER).unavailable(str(missing))


def notifies(report):
    """(eventfd writes a notify, those of them while the loop polled)"""
    total = {key: sum(loop.get(key, 0) for loop in report["loops"]) for key in ("notifies", "event_writes", "event_writes_while_polling")}
    return tuple(total[key] / max(total["notifies"], 1) for key in ("event_writes", "event_writes_while_polling"))


def lock(run):
    """The tracked requests of one disk, between four loops."""
    queues, iothreads, depth = (2, 2, 8) if run.bench.quick else (8, 4, 64)
    policies = {policy: f"--request-lock={policy}" for policy in ("coroutine", "thread", "sharded")}
    options = (f"--queues={queues}", f"--iodepth={depth}")
    name = f"{iothreads} IOThreads, {queues} queues, depth {depth}"
    pairs = (("coroutine", "thread"), ("thread", "sharded"))
    groups = [run.bench.group("Request lock", old, new) for old, new in pairs]
    try:
        with run.servers(policies, (f"--num-queues={queues}", f"--iothreads={iothreads}"), pinned=False) as servers:
            measured = run.in_turn(servers, run.pairs(7), *options)
            locks = dict(zip(servers, run.bench.alternate([lambda server=server: waits(run.recorded(server, *options))
                                                           for server in servers.values()], run.pairs(3))))
        for group, (old, new) in zip(groups, pairs):
            add_rows(group, name, measured[old], measured[new])
            share = group.row(f"{name}: acquisitions that wait", "%", LOWER)
            waited = group.row(f"{name}: waiting and hand-over, an acquisition", "ns", LOWER)
            for one, other in zip(locks[old], locks[new]):
                share.pair(one[0], other[0])
                waited.pair(one[1], other[1])
            group.note(NOT_PINNED)
    except Missing as missing:
        for group in groups:
            group.row(name, "", LOWER).unavailable(str(missing))


def waits(report):
    """(percent of acquisitions that waited, ns waited an acquisition) of all locks"""
    taken, waiting, waited_ns = (sum(lock.get(key, 0) for lock in report["locks"]) for key in ("acquisitions", "contentions", "wait_ns"))
    return (100 * waiting / taken, waited_ns / taken) if taken else (0, 0)


PARTS = {"pool": pool, "guard": guard, "monitor": monitor, "notify": notify, "lock": lock}


def main():
    bench = Bench("device", ABOUT, lambda parser: parser.add_argument("--only", metavar="PART,...", default=",".join(PARTS),
                                                                      help=f"of {', '.join(PARTS)}"))
    with tempfile.TemporaryDirectory(prefix="vblk-bench-", dir="/var/tmp") as name:
        run = Run(bench, pathlib.Path(name))
        for part in bench.options.only.split(","):
            PARTS[part](run)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
