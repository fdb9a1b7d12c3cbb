#!/usr/bin/env python3
"""Goal: a Linux guest gives room back that it does not need, and what it keeps stays as it was.

Method: a sparse file as disk. blkdiscard of a disk full of data, and blkdiscard -z of what was left; mkfs.xfs, a fio verify
run; files that are written and removed, then fstrim; ext4 mounted with -o discard, which trims as it goes. After each the
file's room on the host is compared with what the guest holds, and checksums of what it kept with those of what it wrote.

If it fails: images grow for ever (the room does not shrink), or a discard hits data in use (a checksum or fio's verify fails).
"""

import os
import sys

import device
from device import Device, step, wait_for
from guest import Guest, GuestError, load_driver

DISK_BYTES = 512 << 20
FILLED = 64  # MiB
KEPT = 8


def room(disk):
    """MiB that the file takes on the host."""
    with open(disk, "rb") as image:
        os.fsync(image.fileno())
    return os.stat(disk).st_blocks * 512 >> 20


def expect_room(disk, least, most, when):
    found = room(disk)
    if not least <= found <= most:
        raise GuestError(f"{when} the disk's file takes {found} MiB, not {least} to {most}")


def discards_of_the_raw_disk(guest, disk):
    sizes = guest.run("cat /sys/block/vda/queue/discard_max_bytes /sys/block/vda/queue/write_zeroes_max_bytes").split()
    if "0" in sizes:
        raise GuestError(f"the guest sees a disk without discard or write-zeroes: {sizes}")
    guest.run(f"dd if=/dev/urandom of=/tmp/data bs=1M count=8 && for at in $(seq 0 8 {FILLED - 8}); do "
              "dd if=/tmp/data of=/dev/vda bs=1M seek=$at conv=fsync; done", 120)
    expect_room(disk, FILLED, FILLED + 8, "filled")
    guest.run(f"blkdiscard -o 8388608 -l {(FILLED - 8) << 20} /dev/vda", 60)
    expect_room(disk, 8, 16, "after blkdiscard")
    # The first 8 MiB were not named.
    guest.run("echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/vda bs=1M count=8 | cmp - /tmp/data", 60)
    # Zeros, but for the last 1 MiB. This form of it keeps the room.
    guest.run("/usr/sbin/blkdiscard -z -o 0 -l 7340032 /dev/vda", 60)
    guest.run("echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/vda bs=1M count=8 >/tmp/read && "
              "tail -c 1048576 /tmp/data >/tmp/kept && head -c 7340032 /dev/zero | cat - /tmp/kept | cmp - /tmp/read && "
              "rm /tmp/read /tmp/kept", 60)
    expect_room(disk, 8, 16, "after blkdiscard -z")


def xfs_trims(guest, disk):
    guest.run("modprobe xfs && /usr/sbin/mkfs.xfs -q -f /dev/vda && mount -t xfs /dev/vda /mnt", 120)
    empty = room(disk)
    guest.run("/usr/sbin/fio --name=verify --directory=/mnt --rw=randwrite --bs=4k --size=6M --numjobs=2 --ioengine=libaio "
              "--iodepth=16 --direct=1 --verify=crc32c --verify_fatal=1 --thread", 180)
    guest.run(f"head -c {KEPT << 20} /dev/urandom | tee /mnt/kept | sha256sum | sed 's,-,/mnt/kept,' >/tmp/sums")
    guest.run(f"for n in $(seq {FILLED // 8}); do cp /tmp/data /mnt/file$n; done; sync", 120)
    expect_room(disk, empty + FILLED + KEPT, DISK_BYTES >> 20, "with files")
    guest.run("rm /mnt/file* /mnt/verify*; sync", 120)
    # xfs frees what was removed some time later; what is still used then is trimmed by the next round.
    wait_for(lambda: guest.run("sync; fstrim /mnt", 120) is not None and room(disk) <= empty + KEPT + 8, 60,
             "fstrim gives back what was removed")
    expect_room(disk, KEPT, empty + KEPT + 8, "after fstrim")
    guest.run("umount /mnt && mount -t xfs /dev/vda /mnt && sha256sum -c /tmp/sums && umount /mnt", 120)


def ext4_trims_as_it_goes(guest, disk):
    guest.run("modprobe ext4 && /usr/sbin/mke2fs -q -t ext4 /dev/vda && mount -t ext4 -o discard /dev/vda /mnt", 120)
    empty = room(disk)
    guest.run(f"head -c {KEPT << 20} /dev/urandom | tee /mnt/kept | sha256sum | sed 's,-,/mnt/kept,' >/tmp/sums")
    guest.run(f"for n in $(seq {FILLED // 8}); do cp /tmp/data /mnt/file$n; done; sync", 120)
    expect_room(disk, empty + FILLED + KEPT - 8, DISK_BYTES >> 20, "with files")
    guest.run("rm /mnt/file*; sync", 120)
    guest.run("umount /mnt && /usr/sbin/e2fsck -fn /dev/vda && mount -t ext4 /dev/vda /mnt && sha256sum -c /tmp/sums && "
              "umount /mnt", 120)
    expect_room(disk, KEPT, empty + KEPT + 8, "after files were removed")


def test(directory, image):
    disk = os.path.join(directory, "disk.img")
    with open(disk, "wb") as image_file:
        image_file.truncate(DISK_BYTES)
    with Device(directory, disk) as server:
        step("boot")
        with Guest(directory, image, server.socket_path, queues=device.QUEUES) as guest:
            load_driver(guest)
            step("discard the raw disk")
            discards_of_the_raw_disk(guest, disk)
            step("xfs: verify, fill, remove, trim")
            xfs_trims(guest, disk)
            step("ext4 -o discard: fill, remove")
            ext4_trims_as_it_goes(guest, disk)
            guest.check_console()
            step("power off")
            guest.power_off()
        server.stop()


if __name__ == "__main__":
    sys.exit(device.main(test))
