#!/usr/bin/env python3
"""Goal: what the device acknowledged is on the disk, whenever its process is killed.

Method: again and again a front end stamps a disk file through the device and notes each acknowledged write; at a random
number of acknowledgements the device gets SIGKILL; a new one is started on the left-over socket path, and every block
must hold at least the generation that was acknowledged for it. If it fails: an acknowledgement was sent before the
data was with the kernel, a write went elsewhere, or a left-over socket path is not reused.

Usage: long_kill_loop.py [--rounds=N] [--seed=N]     (default: 200 rounds, a seed from the clock)
Programs: $VBLKD, $VBLK_LOAD
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from waiting import TimeOut, is_listening, wait_for  # noqa: E402  (the directory above)

DISK_BYTES = 64 << 20
DEADLINE_S = 60
QUEUES = 2


class Failure(Exception):
    pass


class Loop:
    def __init__(self, directory, seed):
        self.directory = directory
        self.socket = os.path.join(directory, "disk.sock")
        self.disk = os.path.join(directory, "disk.img")
        self.acknowledged = os.path.join(directory, "acknowledged")
        self.random = random.Random(seed)
        self.running = []
        with open(self.disk, "wb") as disk:
            disk.truncate(DISK_BYTES)

    def start(self, name, *command):
        """Start a process whose output is kept in a file of that name; end() ends it."""
        with open(os.path.join(self.directory, name), "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.running.append(process)
        return process

    def output(self, name):
        with open(os.path.join(self.directory, name), errors="replace") as log:
            return log.read()

    def end(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.running = []

    def serve(self):
        server = self.start("device", os.environ["VBLKD"], f"--socket-path={self.socket}", f"--blk-file={self.disk}",
                            f"--num-queues={QUEUES}", "--iothreads=2")
        wait_for(lambda: is_listening(self.socket) or server.poll() is not None, DEADLINE_S,
                 "no socket to connect to")
        if server.poll() is not None:
            raise Failure(f"the device did not start: {self.output('device')}")
        return server

    def front_end(self, *options):
        return self.start("front-end", os.environ["VBLK_LOAD"], "verify", f"--socket-path={self.socket}", "--bs=4K",
                          f"--size={DISK_BYTES >> 20}M", f"--queues={QUEUES}", "--iodepth=16",
                          f"--ack-log={self.acknowledged}", *options)

    def log_bytes(self):
        return os.path.getsize(self.acknowledged) if os.path.exists(self.acknowledged) else 0

    def kill_while_writing(self):
        server = self.serve()
        # More passes than it will ever get to.
        writer = self.front_end("--write-only", "--passes=1000000")
        enough = self.log_bytes() + self.random.randrange(1, 200_000)
        wait_for(lambda: self.log_bytes() >= enough or writer.poll() is not None, DEADLINE_S,
                 "no writes were acknowledged")
        if writer.poll() is not None:
            raise Failure(f"the front end ended by itself: {self.output('front-end')}")
        server.send_signal(signal.SIGKILL)
        server.wait()
        if writer.wait(DEADLINE_S) == 0:
            raise Failure("the front end did not notice that its device was killed")

    def check(self):
        server = self.serve()
        reader = self.front_end("--read-only")
        if reader.wait(DEADLINE_S) != 0:
            raise Failure(f"acknowledged writes are missing:\n{self.output('front-end')}")
        server.terminate()
        if server.wait(DEADLINE_S) != 0:
            raise Failure(f"SIGTERM ended the device with status {server.returncode}")

    def round(self):
        try:
            self.kill_while_writing()
            self.check()
        finally:
            self.end()


def end_by_signal(number, frame):
    raise Failure(f"ended by signal {number}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, end_by_signal)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="vblk-kill-") as directory:
        loop = Loop(directory, options.seed)
        for number in range(1, options.rounds + 1):
            try:
                loop.round()
            except (Failure, TimeOut, subprocess.TimeoutExpired) as failure:
                print(f"FAILED in round {number}: {failure}")
                return 1
            print(f"round {number}: acknowledgement log {loop.log_bytes()} bytes, all there", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
