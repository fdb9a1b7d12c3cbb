#!/usr/bin/env python3
"""Goal: a guest that reads is migrated from one QEMU to another, each with a vblkd of its own, and has not one wrong page.

Method: both processes serve the same image, read-only, so that their locks agree. The guest reads all of the disk again and
again, past an emptied cache, and notes the checksums, while QEMU migrates it over a Unix socket; the device writes to the
guest's memory all the time, and what it does not mark in the dirty log is not sent again. On the other side the guest goes on,
its last pages are looked at through the cache as they came, and every checksum must be that of the file. The source's log must
say that its queues were stopped in order.

If it fails: the device writes to memory that it does not mark, marks it too early, or goes on when its rings are stopped.

Usage: guest_migration.py [ROUNDS]        there and back again, ROUNDS times (default: 1 migration)
"""

import hashlib
import os
import sys
import time

import device
from device import QUEUES, Device, step
from guest import Guest, GuestError, load_driver

DISK_BYTES = 24 << 20
MIGRATION_DEADLINE_S = 300
READ = "sha256sum /dev/vda | cut -c1-64"


def readings(guest):
    return guest.run("cat /tmp/sums 2>/dev/null || true").split()


def await_readings(guest, count, deadline_s=180):
    end = time.monotonic() + deadline_s
    while len(readings(guest)) < count:
        if time.monotonic() > end:
            raise GuestError(f"the guest has read the disk {len(readings(guest))} times, not {count}")
        time.sleep(0.2)


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


def hop(directory, image, disk, source, name, expected):
    """Migrate @source to a new QEMU with a new vblkd: (server, guest), both entered."""
    there = place(directory, name)
    path = os.path.join(there, "migration.sock")
    server = Device(there, disk, ["--read-only"])
    server.__enter__()
    guest = Guest(there, image, server.socket_path, queues=QUEUES, incoming=path)
    try:
        guest.__enter__()
        before = len(readings(source))
        ram = migrate(source, path)
        step(f"migrated: {ram['transferred'] >> 20} MiB, {ram['dirty-sync-count']} rounds over dirty pages")
        # What lies in the cache now was put there by the device of the source.
        await_readings(guest, before + 2)
        sums = readings(guest)
        if set(sums) != {expected}:
            raise GuestError(f"the guest read something else: {sums}, not {expected}")
        guest.check_console()
    except BaseException:
        guest.__exit__(None, None, None)
        server.__exit__(None, None, None)
        raise
    return server, guest


def test(directory, image):
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    disk = os.path.join(directory, "disk.img")
    content = os.urandom(DISK_BYTES)
    with open(disk, "wb") as image_file:
        image_file.write(content)
    expected = hashlib.sha256(content).hexdigest()
    entered = []
    try:
        here = place(directory, "0")
        entered = [Device(here, disk, ["--read-only"])]
        entered[0].__enter__()
        entered.append(Guest(here, image, entered[0].socket_path, queues=QUEUES))
        step("boot")
        entered[1].__enter__()
        load_driver(entered[1])
        # Sums of what was just read from the disk, and at once of the same pages in the cache.
        entered[1].run(f"(while true; do echo 3 >/proc/sys/vm/drop_caches; {READ} >>/tmp/sums; {READ} >>/tmp/sums; done) "
                       ">/dev/null 2>&1 </dev/null &")
        await_readings(entered[1], 2)
        for round_number in range(1, rounds + 1):
            step(f"migrate, {round_number} of {rounds}")
            server, guest = hop(directory, image, disk, entered[1], str(round_number), expected)
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
        entered[1].power_off()
        entered[0].stop()
    finally:
        for context in reversed(entered):
            context.__exit__(None, None, None)


if __name__ == "__main__":
    sys.exit(device.main(test))
