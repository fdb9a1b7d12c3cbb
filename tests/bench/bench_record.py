#!/usr/bin/env python3
"""Goal: what recording costs, and what it yields, at full speed.

Method: vblkd with a null disk and vblk-load at depth 32. First a recording of all sets: events a second, bytes an event and
events lost. (Bytes an event come from a short recording that is decoded; the long one is only measured, because decoding
takes longer than recording.) Then the request rate and the device's processor time a request, without recording, with core
and with all sets, in alternating pairs of one process; medians of the ratios within a pair, so that the machine's moods
cancel out. On a machine that does other things meanwhile only the processor time says something.

Usage: bench_record.py [--json] [--seconds=N] [--pairs=N]
Programs: $VBLKD, $VBLK_LOAD, $VBLKSCOPE
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "virtio-blk"))
from serving import DEADLINE_S, BackgroundLoad, Server, load, thread_seconds, wait_for  # noqa: E402

SHORT_BYTES = 16 << 20
LOAD = ("--iodepth=32", "--rw=randread")
# LTTng-UST's packet header and context: magic, uuid, stream id, stream instance; begin, end, content bits, packet bits,
# sequence number, discarded so far.
PACKET = struct.Struct("<I16sIQQQQQQQ")


class Recording:
    def __init__(self, directory, pid, sets):
        self.path = pathlib.Path(tempfile.mkdtemp(dir=directory))
        self.log_path = directory / f"record-{time.monotonic_ns()}"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([os.environ["VBLKSCOPE"], "record", f"--output={self.path}", f"--events={sets}",
                                             f"--pid={pid}", f"--session=bench-record-{os.getpid()}-{time.monotonic_ns()}"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: b"recording" in self.log_path.read_bytes() or self.process.poll() is not None, DEADLINE_S,
                 "the recording begins")
        assert self.process.poll() is None, self.log_path.read_text()

    def stop(self):
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

    def events(self):
        report = subprocess.run([os.environ["VBLKSCOPE"], "analyze", "--format=json", str(self.path)], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        return json.loads(report.stdout)["trace"]["event_count"]

    def remove(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.path, ignore_errors=True)


def full_speed(directory, server, seconds):
    with BackgroundLoad(server.socket_path, *LOAD, f"--runtime={seconds + 60}"):
        short = Recording(directory, server.process.pid, "all")
        try:
            wait_for(lambda: sum(path.stat().st_size for path in short.streams()) > SHORT_BYTES, DEADLINE_S, "a short trace")
        finally:
            short.stop()
    try:
        bytes_per_event = short.bytes()[0] / short.events()
    finally:
        short.remove()
    with BackgroundLoad(server.socket_path, *LOAD, f"--runtime={seconds + 60}"):
        long = Recording(directory, server.process.pid, "all")
        begin = time.monotonic()
        try:
            time.sleep(seconds)
            lasted = time.monotonic() - begin
            long.stop()
            content, lost = long.bytes()
        finally:
            long.remove()
    return {"seconds": round(lasted, 2), "events_per_second": round(content / bytes_per_event / lasted),
            "bytes_per_event": round(bytes_per_event, 1), "lost_events": lost,
            "trace_bytes_per_second": round(content / lasted)}


def measure(server):
    """(requests a second, the IOThread's processor time in ns a request)"""
    before = thread_seconds(server.process.pid)["iothread0"]
    result = load(server.socket_path, *LOAD, "--runtime=1")
    used = thread_seconds(server.process.pid)["iothread0"] - before
    return result["iops"], used * 1e9 / result["total_ios"]


def rates(directory, server, pairs):
    result = {}
    for sets in ("core", "all"):
        result[sets] = []
    for _ in range(pairs):
        for sets in ("core", "all"):
            untraced = measure(server)
            recording = Recording(directory, server.process.pid, sets)
            try:
                traced = measure(server)
                recording.stop()
            finally:
                recording.remove()
            result[sets].append((untraced, traced))
    return {sets: {"pairs": pairs,
                   "requests_per_second_untraced": round(statistics.median(off[0] for off, _ in measured)),
                   "requests_per_second": round(statistics.median(on[0] for _, on in measured)),
                   "rate_ratio": round(statistics.median(on[0] / off[0] for off, on in measured), 3),
                   "cpu_ns_per_request_untraced": round(statistics.median(off[1] for off, _ in measured)),
                   "cpu_ns_per_request": round(statistics.median(on[1] for _, on in measured)),
                   "cpu_ratio": round(statistics.median(on[1] / off[1] for off, on in measured), 3)}
            for sets, measured in result.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    if not shutil.which("lttng-sessiond"):
        print("lttng-sessiond is not installed (apt-get install lttng-tools)")
        return 77
    with tempfile.TemporaryDirectory(prefix="vblk-bench-", dir="/var/tmp") as name:
        directory = pathlib.Path(name)
        with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--num-queues=1") as server:
            result = {"full_speed": full_speed(directory, server, options.seconds),
                      "rates": rates(directory, server, options.pairs)}
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    full = result["full_speed"]
    print(f"all sets, {full['seconds']} s: {full['events_per_second']:,} events/s, {full['bytes_per_event']} bytes/event, "
          f"{full['lost_events']:,} events lost")
    print(f"{'recorded':9}{'untraced/s':>13}{'traced/s':>13}{'ratio':>8}{'untraced ns CPU':>17}{'traced':>8}{'ratio':>8}"
          f"   (medians of {options.pairs} pairs)")
    for sets, row in result["rates"].items():
        print(f"{sets:9}{row['requests_per_second_untraced']:>13,}{row['requests_per_second']:>13,}{row['rate_ratio']:>8}"
              f"{row['cpu_ns_per_request_untraced']:>17,}{row['cpu_ns_per_request']:>8,}{row['cpu_ratio']:>8}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
