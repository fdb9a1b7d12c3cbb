#!/usr/bin/env python3
"""Goal: a Linux guest keeps its files on a recorded vblkd, and the analysis of the recording finds nothing wrong.

Method: two queues and two IOThreads; mke2fs, 200 MB of random files and a fio verify run on both queues, sync,
unmount, e2fsck, mount again, every checksum compared with the one taken before the data went to the disk. Then the
guest unloads and reloads its driver (dataplane stop and start) and computes the checksum of the raw disk, which must
be that of the file on the host.

If it fails: data is lost or misplaced between ring and file (a checksum differs), the start and stop order is broken
(the reload hangs), or an analysis raises a false alarm (status other than 0).

Usage: guest_ext4.py [--stand-in]
  --stand-in  serve the disk with qemu-storage-daemon, without recording: tells a broken guest from a broken device
"""

import hashlib
import os
import sys

import device
from device import QUEUES, Device, analyze, step
from guest import Guest, GuestError, load_driver

DISK_BYTES = 384 << 20
FILE_COUNT = 8
FILE_BYTES = 25 * 1000 * 1000


def write_files(guest):
    guest.run("modprobe ext4 && /usr/sbin/mke2fs -q -t ext4 /dev/vda && mount -t ext4 /dev/vda /mnt", 120)
    for number in range(FILE_COUNT):
        # The checksum is of what was sent, not of what was read back; it stays in the guest's memory.
        guest.run(f"head -c {FILE_BYTES} /dev/urandom | tee /mnt/file{number} | sha256sum "
                  f"| sed 's,-,/mnt/file{number},' >>/tmp/sums", 180)
    # One job a processor: each has its own queue.
    guest.run("/usr/sbin/fio --name=verify --directory=/mnt --rw=randwrite --bs=4k --size=6M --numjobs=2 "
              "--cpus_allowed=0-1 --cpus_allowed_policy=split --ioengine=libaio --iodepth=16 --direct=1 "
              "--verify=crc32c --verify_fatal=1 --thread", 180)
    guest.run("sync", 120)


def compare_files(guest):
    guest.run("umount /mnt", 120)
    guest.run("/usr/sbin/e2fsck -fn /dev/vda", 120)
    guest.run("mount -t ext4 /dev/vda /mnt && sha256sum -c /tmp/sums", 180)
    guest.run(f"test $(wc -l </tmp/sums) -eq {FILE_COUNT} && umount /mnt", 120)


def reload_driver(guest):
    guest.run("rmmod virtio_blk && test ! -b /dev/vda")
    load_driver(guest)


def raw_checksum(guest):
    guest.run("echo 3 >/proc/sys/vm/drop_caches")
    return guest.run("sha256sum /dev/vda", 180).split()[0]


def file_checksum(path):
    digest = hashlib.sha256()
    with open(path, "rb") as disk:
        while block := disk.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def test(directory, image):
    stand_in = "--stand-in" in sys.argv[1:]
    disk = os.path.join(directory, "disk.img")
    with open(disk, "wb") as image_file:
        image_file.truncate(DISK_BYTES)

    with Device(directory, disk, recorded=not stand_in, stand_in=stand_in) as server:
        step("boot")
        with Guest(directory, image, server.socket_path, queues=QUEUES) as guest:
            load_driver(guest)
            queues = guest.run("ls /sys/block/vda/mq").split()
            if len(queues) != QUEUES:
                raise GuestError(f"the guest sees {len(queues)} queues, not {QUEUES}")
            step("make a file system, write 200 MB")
            write_files(guest)
            step("unmount, check, mount, compare checksums")
            compare_files(guest)
            step("unload and reload the driver, read the raw disk")
            reload_driver(guest)
            seen = raw_checksum(guest)
            guest.check_console()
            step("power off")
            guest.power_off()
        expected = file_checksum(disk)
        if seen != expected:
            raise GuestError(f"the guest read a disk with SHA-256 {seen}, the file has {expected}")
        server.stop()
        if file_checksum(disk) != expected:
            raise GuestError("the file changed after the guest's last read")
    if not stand_in:
        step("analyse the recording")
        check_verdict(server.trace)


def check_verdict(trace):
    status, report = analyze(trace)
    if status != 0:
        found = [finding["id"] for finding in report["findings"]] + \
                [f"cannot tell: {check['id']}, {check['reason']}" for check in report["inconclusive"]]
        raise GuestError(f"a healthy device was not found healthy (status {status}): {found}")
    if report["trace"]["event_count"] == 0:
        raise GuestError("the recording is empty")


if __name__ == "__main__":
    sys.exit(device.main(test))
