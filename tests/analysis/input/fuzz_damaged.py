#!/usr/bin/env python3
"""Goal: no damage to a trace's files crashes `vblkscope analyze`, hangs it, or lets it take memory without bound.

Method: small traces (built ones in several layouts, and recordings with known truth) are damaged by a seeded generator: bits,
headers of packets, sizes, metadata, index, files cut, grown, swapped, doubled, missing. Each must end with a status of 0
to 3, in time, within bounds of memory, and with a report or a reason.
If it fails: a damaged recording takes the tool down, or the machine that analyses it.

Usage: fuzz_damaged.py RUNS [SEED]   (0 runs: for HOURS, from the environment, 2 if it is not set; prints its seed)
"""

import concurrent.futures
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from analyze_tool import BROKEN_QUEUE, DEADLINE_S, HEALTHY, VBLKSCOPE, build  # noqa: E402

ARCHIVE = Path(__file__).parent.parent / "cases/cases.tar.xz"
STORIES = ("s01-two-folders", "s06-1a-stale-hidden", "s04-pooled-idle", "s06-cut-file")
# Small traces; what a sanitizer maps is no measure.
MEMORY_MAX_BYTES = 1 << 30
SANITIZED = "ASAN_OPTIONS" in os.environ and os.environ.get("SANITIZER_RUNTIME") is not None
PAGE = 4096
NASTY = (0, 1, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
WORDS = (b"uint64_t", b"integer", b"struct", b"size = 64", b"event.id", b"}", b"{", b";", b"align = 0", b"size = 0",
         b"size = 4294967295", b"stream_id", b"packet.context", b"clock", b"id = 0", b"string")


def seeds(folder):
    """Folders with whole traces."""
    build(folder / "plain", BROKEN_QUEUE)
    build(folder / "packetised", "!packetised\n!packet-bytes 512\n" + BROKEN_QUEUE)
    build(folder / "lossy", "!discard cpu0 2 2.5 7\n!packet cpu0 2.6\n" + HEALTHY)
    build(folder / "pid", "!trace scheme=pid vpid=7 procname=vblkd\n" + HEALTHY)
    (folder / "pid/index").mkdir()
    (folder / "pid/index/channel0_0.idx").write_bytes(bytes.fromhex("c1f1dcc1" "00000001" "00000001" "00000048") + bytes(72))
    with tarfile.open(ARCHIVE) as archive:
        for member in archive.getmembers():
            if member.name.split("/")[0] in STORIES:
                archive.extract(member, folder)
    return sorted(path for path in folder.iterdir() if path.is_dir())


def damage_bytes(generator, data, is_metadata):
    data = bytearray(data)
    for _ in range(generator.choice((1, 1, 2, 5, 20))):
        kind, size = generator.randrange(8), len(data)
        # most of what a reader trusts stands in headers
        at = generator.randrange(min(size, 120) if generator.random() < 0.5 else size) if size else 0
        if generator.random() < 0.3:
            at = min(at + PAGE * generator.randrange(4), max(size - 1, 0))
        if kind == 0 and size:
            data[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            data[at:at + 8] = struct.pack("<Q", generator.choice(NASTY))
        elif kind == 2:
            data[at:at + 4] = struct.pack("<I", generator.choice(NASTY) & 0xFFFFFFFF)
        elif kind == 3:
            del data[generator.randrange(size + 1):]
        elif kind == 4:
            data += generator.randbytes(generator.choice((1, 7, 100, PAGE)))
        elif kind == 5 and size:
            length = generator.choice((1, 8, 64, PAGE))
            data[at:at] = data[at:at + length]
        elif kind == 6 and size:
            del data[at:at + generator.choice((1, 4, 8, 100, PAGE))]
        elif is_metadata:
            data[at:at + generator.choice((0, 4, 8))] = generator.choice(WORDS)
        else:
            data[at:at + 16] = generator.randbytes(16)
    return bytes(data)


def damage(generator, folder):
    """Change one or more files below the folder."""
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if not files:
            return
        path, kind = generator.choice(files), generator.randrange(20)
        if kind == 0:
            path.unlink()
        elif kind == 1:
            path.write_bytes(generator.choice(files).read_bytes())
        elif kind == 2:
            shutil.copy(path, path.with_name(path.name + "x"))
        elif kind == 3:
            path.write_bytes(b"")
        else:
            path.write_bytes(damage_bytes(generator, path.read_bytes(), path.name == "metadata"))


def bound_memory():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))


def attempt(originals, scratch, seed):
    generator = random.Random(seed)
    copy = scratch / str(seed)
    shutil.copytree(generator.choice(originals), copy)
    damage(generator, copy)
    try:
        return judge(copy)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def judge(copy, statuses=(0, 1, 2, 3)):
    """What is wrong; None: nothing."""
    command = [VBLKSCOPE, "analyze", "--format=json", "--stall-timeout=5", copy]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S,
                              preexec_fn=bound_memory, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {DEADLINE_S} s"
    errors = done.stderr.decode(errors="replace")
    if done.returncode not in statuses:
        return f"status {done.returncode}: {errors[-600:]}"
    if "Sanitizer" in errors or "runtime error" in errors or "CRITICAL" in errors:
        return errors[-2000:]
    if done.returncode == 2 and not errors:
        return "status 2 without a reason"
    try:
        if done.returncode != 2:
            json.loads(done.stdout)
    except ValueError as error:
        return f"status {done.returncode} and no JSON: {error}"
    return None


def main():
    runs = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 48)
    until = time.monotonic() + 3600 * float(os.environ.get("HOURS", "2")) if not runs else None
    tried = failed = 0
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="vblkscope-fuzz-") as folder:
        (Path(folder) / "seeds").mkdir()
        originals, scratch = seeds(Path(folder) / "seeds"), Path(folder)
        for original in originals:
            wrong = judge(original, (0, 1, 3))
            if wrong:
                print(f"FAIL {original.name}, undamaged: {wrong}")
                return 1
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            while tried < runs or (until and time.monotonic() < until):
                some = range(seed + tried, seed + tried + (min(runs - tried, 100) if runs else 100))
                for number, wrong in zip(some, pool.map(lambda n: attempt(originals, scratch, n), some)):
                    tried += 1
                    if wrong:
                        failed += 1
                        print(f"FAIL seed {number}: {wrong}\n  repeat: fuzz_damaged.py 1 {number}", flush=True)
    print(f"{tried} damaged traces, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
