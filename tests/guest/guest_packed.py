#!/usr/bin/env python3
"""Goal: Linux' own driver works with packed rings, through QEMU, over starts and stops.

Method: a device with packed=on and two queues; the guest must have negotiated the feature. fio writes and verifies on both
queues; the driver is unloaded (QEMU asks for both positions of each ring) and loaded again (rings begin anew), reads the
same checksum, and fio verifies once more. The checksum must be that of the file on the host.

If it fails: our reading of the packed format and Linux' or QEMU's differ, or a ring loses its place between them.

Usage: guest_packed.py
"""

import hashlib
import os
import sys

import device
from device import QUEUES, Device, step
from guest import Guest, GuestError, load_driver

DISK_BYTES = 16 << 20
PACKED_FEATURE = 34


def verify(guest):
    # One job a processor: each has its own queue. Large blocks for chains of several buffers.
    guest.run("/usr/sbin/fio --name=verify --filename=/dev/vda --rw=randwrite --bsrange=4k-128k --size=6M --numjobs=2 "
              "--offset_increment=8M --cpus_allowed=0-1 --cpus_allowed_policy=split --ioengine=libaio --iodepth=16 "
              "--direct=1 --verify=crc32c --verify_fatal=1 --thread", 180)


def checksum(guest):
    guest.run("echo 3 >/proc/sys/vm/drop_caches")
    return guest.run("sha256sum /dev/vda", 120).split()[0]


def expect_packed(guest):
    # One character a feature bit, the lowest first.
    features = guest.run("cat /sys/block/vda/device/features").strip()
    if features[PACKED_FEATURE] != "1":
        raise GuestError(f"the guest did not negotiate packed rings: {features}")
    queues = guest.run("ls /sys/block/vda/mq").split()
    if len(queues) != QUEUES:
        raise GuestError(f"the guest sees {len(queues)} queues, not {QUEUES}")


def test(directory, image):
    disk = os.path.join(directory, "disk.img")
    with open(disk, "wb") as image_file:
        image_file.truncate(DISK_BYTES)
    with Device(directory, disk) as server:
        step("boot")
        with Guest(directory, image, server.socket_path, queues=QUEUES, disk_options="packed=on") as guest:
            load_driver(guest)
            expect_packed(guest)
            step("write and verify")
            verify(guest)
            before = checksum(guest)
            step("unload and reload the driver")
            guest.run("rmmod virtio_blk && test ! -b /dev/vda")
            load_driver(guest)
            expect_packed(guest)
            if checksum(guest) != before:
                raise GuestError("the disk has another content after the driver was loaded again")
            verify(guest)
            seen = checksum(guest)
            guest.check_console()
            step("power off")
            guest.power_off()
        server.stop()
        with open(disk, "rb") as written:
            if hashlib.sha256(written.read()).hexdigest() != seen:
                raise GuestError("the file on the host is not what the guest read")


if __name__ == "__main__":
    sys.exit(device.main(test))
