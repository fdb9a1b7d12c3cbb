#!/usr/bin/env python3
"""Goal: a guest that reads and writes its disk is migrated from one QEMU to another, each with a vblkd of its own, and neither loses a
byte nor has one wrong page.

Method: both processes have the same writable image open; the one on the way there with --incoming. QEMU migrates the guest over a
Unix socket, and meanwhile the guest reads one part of the disk again and again, past an emptied cache, and notes the checksums, and
writes random blocks to the other part, each synced, and notes the checksum of each that was acknowledged. The disk grows when the
destination has opened it already. On the other side reading and writing go on; every checksum of what was read must be that of
the file, every block that was written must read as noted, in the guest and, when it has powered off, in the file; and the disk's new end can
be written. The logs must say that the source gave the disk up before the destination took it, which nobody else could meanwhile.

If it fails: the device writes to memory that it does not mark, marks it too early, goes on when its rings are stopped, or two
processes use one image at the same time, or what was acknowledged is lost on the way.

Usage: guest_migration.py [ROUNDS]        on and on to new processes, ROUNDS times (default: 1 migration)
"""

import hashlib
import os
import subprocess
import sys
import time

import device
from device import QUEUES, Device, step
from guest import Guest, GuestError, load_driver

MIB = 1 << 20
READ_MIB, WRITTEN_MIB = 8, 12
MIGRATION_DEADLINE_S = 300
PROGRESS_DEADLINE_S = 180
TAKEN, GIVEN_UP = "the disk is taken", "the disk is given up"

READ = f"dd if=/dev/vda bs=1M count={READ_MIB} 2>/dev/null | sha256sum | cut -c1-64"
# Sums of what was just read from the disk, and at once of the same pages in the cache.
READER = (f"(while true; do echo 3 >/proc/sys/vm/drop_caches; {READ} >>/tmp/sums; {READ} >>/tmp/sums; done) "
          ">/dev/null 2>&1 </dev/null &")
# A sum is noted when the block was acknowledged; the file is replaced at once.
WRITER = (
    "rm -f /tmp/stop /tmp/stopped; (i=$(cat /tmp/written 2>/dev/null || echo 0); while [ ! -e /tmp/stop ]; do "
    f"k=$(({READ_MIB} + i % {WRITTEN_MIB})); dd if=/dev/urandom of=/tmp/block bs=1M count=1; "
    "if dd if=/tmp/block of=/dev/vda bs=64k seek=$((k * 16)) conv=notrunc,fsync; then "
    "sha256sum </tmp/block | cut -c1-64 >/tmp/sum.$k; else echo $k >>/tmp/failed; fi; "
    "i=$((i + 1)); echo $i >/tmp/written; done; echo >/tmp/stopped) >/dev/null 2>&1 </dev/null &")
STOP_WRITER = "touch /tmp/stop; while [ ! -e /tmp/stopped ]; do usleep 50000; done; cat /tmp/failed 2>/dev/null || true"
WRONG_BLOCKS = (
    "echo 3 >/proc/sys/vm/drop_caches; for f in /tmp/sum.*; do k=${f#/tmp/sum.}; "
    "[ \"$(dd if=/dev/vda bs=1M skip=$k count=1 2>/dev/null | sha256sum | cut -c1-64)\" = \"$(cat $f)\" ] || echo $k; done")


def readings(guest):
    return guest.run("cat /tmp/sums 2>/dev/null || true").split()


def written(guest):
    return int(guest.run("cat /tmp/written 2>/dev/null || true").strip() or 0)


def await_count(count_now, count, what):
    end = time.monotonic() + PROGRESS_DEADLINE_S
    while (now := count_now()) < count:
        if time.monotonic() > end:
            raise GuestError(f"the guest has {what} {now} times, not {count}")
        time.sleep(0.2)


def await_progress(guest, reads, writes):
    await_count(lambda: len(readings(guest)), reads, "read the disk")
    await_count(lambda: written(guest), writes, "written a block")


def migrate(source, path):
    source.monitor.run("migrate-set-parameters", **{"max-bandwidth": 1 << 30, "downtime-limit": 2000})
    source.monitor.run("migrate", uri=f"unix:{path}")
    end = time.monotonic() + MIGRATION_DEADLINE_S
    while True:
        state = source.monitor.run("query-migrate")
        if state.get("status") == "completed":
            return state["ram"]
        if state.get("status") in ("failed", "cancelled") or time.monotonic() > end:
            raise GuestError(f"the migration did not complete: {state}")
        time.sleep(0.1)


def place(directory, name):
    path = os.path.join(directory, name)
    os.mkdir(path)
    return path


def expect_logged(server, words):
    if words not in server.log():
        raise GuestError(f"the device's log does not say {words!r}:\n{server.log()}")


def expect_locked(directory, disk):
    """Nobody else gets the disk, in the middle of it all."""
    result = subprocess.run([os.environ["VBLKD"], f"--socket-path={directory}/other", f"--blk-file={disk}"],
                            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
    if result.returncode != 1 or "has locked this disk" not in result.stderr:
        raise GuestError(f"a third process was not refused: status {result.returncode}: {result.stderr}")


def check_guest(guest, expected):
    """All that it has read and written is right; the writer has stopped then."""
    failed = guest.run(STOP_WRITER, timeout_s=PROGRESS_DEADLINE_S)
    wrong = guest.run(WRONG_BLOCKS, timeout_s=PROGRESS_DEADLINE_S)
    sums = readings(guest)
    if failed.strip() or wrong.strip():
        raise GuestError(f"blocks that could not be written: {failed.split()}; that read as something else: {wrong.split()}")
    if set(sums) != {expected}:
        raise GuestError(f"the guest read something else: {sums}, not {expected}")
    guest.check_console()


def hop(directory, image, disk, source, source_guest, name, expected):
    """Migrate to a new QEMU with a new vblkd: (server, guest), both entered."""
    there = place(directory, name)
    path = os.path.join(there, "migration.sock")
    server = Device(there, disk, ["--incoming"])
    server.__enter__()
    guest = Guest(there, image, server.socket_path, queues=QUEUES, incoming=path)
    try:
        guest.__enter__()
        source_guest.run(WRITER)
        await_progress(source_guest, len(readings(source_guest)) + 1, written(source_guest) + 2)
        size_bytes = os.path.getsize(disk) + MIB
        source.control("resize", size_bytes=size_bytes)
        expect_locked(there, disk)
        reads, writes = len(readings(source_guest)), written(source_guest)
        ram = migrate(source_guest, path)
        step(f"migrated: {ram['transferred'] >> 20} MiB, {ram['dirty-sync-count']} rounds over dirty pages")
        # What lies in the cache now was put there by the device of the source.
        await_progress(guest, reads + 2, writes + 3)
        expect_locked(there, disk)
        expect_logged(source, GIVEN_UP)
        expect_logged(server, TAKEN)
        expect_logged(server, f"found with {size_bytes} bytes")
        check_guest(guest, expected)
        guest.run(f"[ $(cat /sys/block/vda/size) = {size_bytes // 512} ]")
        guest.run(f"dd if=/dev/zero of=/dev/vda bs=64k seek={size_bytes // 65536 - 1} count=1 conv=notrunc,fsync")
    except BaseException:
        guest.__exit__(None, None, None)
        server.__exit__(None, None, None)
        raise
    return server, guest


def check_image(disk, sums, expected):
    with open(disk, "rb") as image_file:
        if hashlib.sha256(image_file.read(READ_MIB * MIB)).hexdigest() != expected:
            raise GuestError("what was only read has changed in the file")
        for line in sums.splitlines():
            block, expected_sum = line.split()
            image_file.seek(int(block) * MIB)
            if hashlib.sha256(image_file.read(MIB)).hexdigest() != expected_sum:
                raise GuestError(f"block {block} was written and is not in the file")


def test(directory, image):
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    disk = os.path.join(directory, "disk.img")
    content = os.urandom(READ_MIB * MIB)
    with open(disk, "wb") as image_file:
        image_file.write(content)
        image_file.truncate((READ_MIB + WRITTEN_MIB) * MIB)
    expected = hashlib.sha256(content).hexdigest()
    entered = []
    try:
        here = place(directory, "0")
        entered = [Device(here, disk)]
        entered[0].__enter__()
        entered.append(Guest(here, image, entered[0].socket_path, queues=QUEUES))
        step("boot")
        entered[1].__enter__()
        load_driver(entered[1])
        entered[1].run(READER)
        for round_number in range(1, rounds + 1):
            step(f"migrate, {round_number} of {rounds}")
            server, guest = hop(directory, image, disk, *entered, str(round_number), expected)
            old_server, old_guest = entered
            entered = [server, guest]
            old_guest.__exit__(None, None, None)
            try:
                old_server.stop()
                if "the queue stops" in old_server.log():
                    raise GuestError(f"the source's device stopped a queue:\n{old_server.log()}")
            finally:
                old_server.__exit__(None, None, None)
        step("power off")
        sums = entered[1].run("for f in /tmp/sum.*; do echo ${f#/tmp/sum.} $(cat $f); done")
        entered[1].power_off()
        entered[0].stop()
        check_image(disk, sums, expected)
    finally:
        for context in reversed(entered):
            context.__exit__(None, None, None)


if __name__ == "__main__":
    sys.exit(device.main(test))
