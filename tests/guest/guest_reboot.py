#!/usr/bin/env python3
"""Goal: a guest that reboots, and one whose driver comes and goes, finds its disk as it left it, on all of its queues.

Method: four processors and so four queues on two IOThreads. The guest writes and verifies with fio on all of them, is paused
and goes on several times meanwhile (the front end asks where the rings stand, and sets them up there again), unloads
and loads its driver, resets the machine without powering it off, and comes up again: the front end stays connected and
negotiates anew on the same connection. Each time the whole disk must have the same checksum, and fio must verify again
what it wrote before. In between firmware and kernels may have used the device as they like.

If it fails: guests lose data or hang when they reboot or load a driver again, or queues are mixed up.

Usage: guest_reboot.py
"""

import hashlib
import os
import sys

import device
from device import Device, step
from guest import Guest, GuestError, load_driver

DISK_BYTES = 32 << 20
QUEUES = 4
# Jobs that write at fixed places what they can verify later; job n runs on processor n, which is queue n.
FIO = ("/usr/sbin/fio --name=verify --filename=/dev/vda --rw=randwrite --bs=16k --size=6M --offset_increment=8M "
       f"--numjobs={QUEUES} --cpus_allowed=0-3 --cpus_allowed_policy=split --ioengine=libaio --iodepth=8 --direct=1 "
       "--verify=crc32c --verify_fatal=1 --randseed=42 --thread")


PAUSES = 5


def pause_while_it_writes(guest):
    guest.run(f"{FIO} >/tmp/fio.log 2>&1 & echo $! >/tmp/fio.pid")
    for _ in range(PAUSES):
        guest.monitor.run("stop")
        guest.monitor.run("cont")
        guest.run("true")
    guest.run("while kill -0 $(cat /tmp/fio.pid) 2>/dev/null; do usleep 100000; done; grep -q 'err= 0' /tmp/fio.log", 180)


def checksum(guest):
    guest.run("echo 3 >/proc/sys/vm/drop_caches")
    return guest.run("sha256sum /dev/vda", 180).split()[0]


def expect_queues(guest, server):
    seen = guest.run("ls /sys/block/vda/mq").split()
    if len(seen) != QUEUES:
        raise GuestError(f"the guest sees {len(seen)} queues, not {QUEUES}")
    running = [queue for queue in server.control("queues")["queues"] if queue["running"] and queue["attached"]]
    if len(running) != QUEUES or any(queue["broken"] for queue in running):
        raise GuestError(f"not all queues run: {running}")


def expect_all_used(server):
    idle = [queue["queue"] for queue in server.control("stats")["disks"][0]["queues"] if queue["pops"] < 100]
    if idle:
        raise GuestError(f"queues {idle} did hardly anything")


def expect_same(guest, expected, when):
    if checksum(guest) != expected:
        raise GuestError(f"the disk has another content {when}")
    guest.run(f"{FIO} --verify_only", 180)


def test(directory, image):
    disk = os.path.join(directory, "disk.img")
    with open(disk, "wb") as image_file:
        image_file.truncate(DISK_BYTES)
    with Device(directory, disk, queues=QUEUES) as server:
        step("boot")
        with Guest(directory, image, server.socket_path, queues=QUEUES, processors=QUEUES, reboots=True) as guest:
            load_driver(guest)
            expect_queues(guest, server)
            step("write and verify on four queues, paused now and then")
            pause_while_it_writes(guest)
            expect_all_used(server)
            expected = checksum(guest)
            step("unload and load the driver")
            for _ in range(3):
                guest.run("rmmod virtio_blk && test ! -b /dev/vda")
                load_driver(guest)
            expect_queues(guest, server)
            expect_same(guest, expected, "after the driver was loaded again")
            step("reboot")
            guest.reboot()
            load_driver(guest)
            expect_queues(guest, server)
            expect_same(guest, expected, "after a reboot")
            guest.check_console()
            step("power off")
            guest.power_off()
        server.stop()
        with open(disk, "rb") as written:
            if hashlib.sha256(written.read()).hexdigest() != expected:
                raise GuestError("the file on the host is not what the guest read")


if __name__ == "__main__":
    sys.exit(device.main(test))
