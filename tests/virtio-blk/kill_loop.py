#!/usr/bin/env python3
"""Goal: nothing is lost when the device is killed, at whatever moment: every request in flight is completed exactly once,
and every acknowledged write is there.

Method: a front end stamps and checks a disk file through several queues and outlives the device: it keeps the in-flight
region and comes back to the next one on the left-over socket path, with everything that it had in flight. At a random
moment after each connection, in the middle of the recovery too, the device gets SIGKILL, now and then SIGTERM. The front end ends the run if a
request completes that was not in flight, or one does not complete; then every block must hold exactly its last
generation. The disk completes out of order, by chance and by injection; rings are split and packed, with and without
indirect descriptors and event indices. If it fails: a request is forgotten or done twice after a restart, an
acknowledgement was sent before the data was with the kernel, or a left-over socket path is not reused.

Usage: kill_loop.py [--rounds=N] [--seed=N]     (default: 200 rounds, a seed from the clock)
Programs: $VBLKD, $VBLK_LOAD
"""

import argparse
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import time

from serving import BackgroundLoad, DEADLINE_S, Server, make_image
from waiting import wait_for

DISK_MIB = 32
QUEUES = 4
# From "front end connected" to the kill: setting up, recovering, then working.
KILL_AFTER_S = 0.25
RINGS = [(), ("--no-indirect", "--queue-size=256"), ("--no-event-idx",), ("--packed",), ("--packed", "--no-indirect", "--queue-size=256")]
DISKS = [(), ("--inject=delay-us=300,reorder=60",), ("--cache=none",), ("--inject=percent=5,delay-us=20000",)]


class Loop:
    def __init__(self, directory, seed, rounds):
        self.directory = pathlib.Path(directory)
        self.disk = make_image(self.directory / "disk.img", DISK_MIB << 20)
        self.random = random.Random(seed)
        self.rounds = rounds
        self.killed = 0
        self.recovered = 0
        self.server = None

    def serve(self, options):
        self.server = Server(self.directory, f"--socket-path={self.directory / 'socket'}", f"--blk-file={self.disk}",
                             f"--num-queues={QUEUES}", "--iothreads=2", *options)
        return self.server.start()

    def count_recovered(self):
        self.recovered += sum(map(int, re.findall(r"queue \d+: (\d+) requests were in flight", self.server.log())))

    def kill_while(self, load, options):
        """SIGKILL again and again until the front end has done its work, or enough."""
        while load.process.poll() is None and self.killed < self.rounds:
            wait_for(lambda: "front end connected" in self.server.log() or load.process.poll() is not None, DEADLINE_S,
                     "the front end comes back")
            time.sleep(self.random.uniform(0, KILL_AFTER_S))
            if load.process.poll() is not None:
                break
            if self.random.random() < 0.1:
                self.server.stop()  # drained: the next one takes up nothing, and goes on all the same
            else:
                self.server.kill()
                self.killed += 1
            self.count_recovered()
            self.serve(options)

    def run(self, generation, rings, disk):
        self.serve(disk)
        try:
            before_ns = self.disk.stat().st_mtime_ns
            with BackgroundLoad(self.server.socket_path, "verify", f"--queues={QUEUES}", "--iodepth=24", "--passes=2",
                                f"--seed={generation}", f"--reconnect={DEADLINE_S}", f"--timeout={DEADLINE_S}", "--json",
                                *rings) as load:
                # Only what has begun can be continued.
                wait_for(lambda: self.disk.stat().st_mtime_ns != before_ns or load.process.poll() is not None, DEADLINE_S, "a first write")
                self.kill_while(load, disk)
                status, out, err = load.finish()
            assert status == 0, f"{rings} {disk}: vblk-load ended with {status}: {err}{out}"
            report = json.loads(out)
            assert report["complete"] and report["mismatch_count"] == 0 and report["error_count"] == 0, report
            self.server.stop()
            self.count_recovered()
        finally:
            self.server.kill()


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="vblk-kill-", dir="/var/tmp") as directory:
        loop = Loop(directory, options.seed, options.rounds)
        generation = 0
        while loop.killed < options.rounds:
            rings, disk = RINGS[generation % len(RINGS)], loop.random.choice(DISKS)
            generation += 1
            try:
                loop.run(generation, rings, disk)
            except BaseException:
                print(f"--- seed {options.seed}, after {loop.killed} kills, {rings} {disk}\n{loop.server.log()}")
                raise
            print(f"{loop.killed} kills, {loop.recovered} requests recovered, none lost {' '.join(rings + disk)}", flush=True)
    assert loop.recovered > 0, "no request was in flight at any kill: nothing was tested"


if __name__ == "__main__":
    main()
