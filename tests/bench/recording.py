"""`vblkscope record` as a process beside a benchmark, and what its trace holds.

Programs come from the environment, which the build sets: VBLKSCOPE.
"""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from waiting import wait_for  # noqa: E402  (tests/waiting.py)

DEADLINE_S = 60
# LTTng-UST's packet header and context: magic, uuid, stream id, stream instance; begin, end, content bits, packet bits,
# sequence number, discarded so far.
PACKET = struct.Struct("<I16sIQQQQQQQ")


class Recording:
    """Of one process; it records when this has been made. End it with stop() or remove()."""

    def __init__(self, directory, pid, sets, *options):
        self.path = pathlib.Path(tempfile.mkdtemp(dir=directory))
        self.log_path = pathlib.Path(directory) / f"record-{time.monotonic_ns()}"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([os.environ["VBLKSCOPE"], "record", f"--output={self.path}", f"--events={sets}",
                                             f"--pid={pid}", f"--session=bench-{os.getpid()}-{time.monotonic_ns()}", *options],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(lambda: b"recording" in self.log_path.read_bytes() or self.process.poll() is not None, DEADLINE_S,
                     "the recording begins")
        except BaseException:  # a signal, too: there is nobody yet who could call remove()
            self.remove()
            raise
        assert self.process.poll() is None, self.log_path.read_text()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(DEADLINE_S)

    def streams(self):
        return [path for path in self.path.rglob("*") if path.is_file() and path.name != "metadata" and
                "index" not in path.parts]

    def bytes(self):
        """Of events and their headers, without the padding of packets; and how many events the tracer says it lost."""
        content = lost = 0
        for path in self.streams():
            with open(path, "rb") as stream:
                discarded = at = 0
                while len(header := os.pread(stream.fileno(), PACKET.size, at)) == PACKET.size:
                    *_, content_bits, packet_bits, _, discarded = PACKET.unpack(header)
                    content += content_bits // 8
                    at += packet_bits // 8
                lost += discarded
        return content, lost

    def report(self):
        """What `vblkscope analyze` says of it."""
        report = subprocess.run([os.environ["VBLKSCOPE"], "analyze", "--format=json", str(self.path)], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        assert report.stdout, report.stderr
        return json.loads(report.stdout)

    def events(self):
        return self.report()["trace"]["event_count"]

    def remove(self):
        if self.process.poll() is None:  # asked first: what is killed leaves its session behind
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.path, ignore_errors=True)
