#!/usr/bin/env python3
"""Goal: a guest can be given memory and take it away again, and its disk can change its size, while it reads and writes.

Method: QEMU plugs a module of memory; the guest brings it online as movable, which is where the kernel then takes the
buffers of programs from, and verifies the disk by direct I/O. That they did lie there shows on the host: pages of the
module are mapped in the device. The module is taken offline and unplugged, and must be gone from the device, too. The disk
grows and shrinks over the control socket, with its driver and without; the guest sees its new size without asking, and
writes to what it gained. Then the cache mode is changed from inside, and read back.

If it fails: guests with hot-plugged memory lose data or hang, memory of guests stays with the device, or a disk has to be
detached to grow.

Usage: guest_hotplug.py
"""

import os
import sys

import device
from device import Device, step, wait_for
from guest import Guest, GuestError, load_driver

MIB = 1 << 20
DISK_BYTES = 64 * MIB
LARGER_BYTES = 96 * MIB
MODULE_MB = 256
MEMORY_MB = 512
# Buffers of 64 MiB a job and process memory: more than could lie elsewhere by accident.
FIO = ("/usr/sbin/fio --name=verify --filename=/dev/vda --rw=randwrite --bs=1M --numjobs=2 --size=24M "
       "--offset_increment=32M --ioengine=libaio --iodepth=16 --direct=1 --verify=crc32c --verify_fatal=1 --thread")


def module_pages(pid):
    """KiB of the module that the device has touched; None: it has it not mapped."""
    with open(f"/proc/{pid}/smaps") as maps:
        wanted = False
        for line in maps:
            fields = line.split()
            if "-" in fields[0] and not fields[0].endswith(":"):
                begin, end = (int(address, 16) for address in fields[0].split("-"))
                wanted = end - begin == MODULE_MB * MIB and "memfd" in line
            elif wanted and fields[0] == "Rss:":
                return int(fields[1])
    return None


def plug(guest):
    before = set(guest.run("ls -d /sys/devices/system/memory/memory*").split())
    guest.monitor.run("object-add", **{"qom-type": "memory-backend-memfd", "id": "hot", "size": MODULE_MB * MIB,
                                       "share": True})
    guest.monitor.run("device_add", driver="pc-dimm", id="dimm", memdev="hot")
    blocks = []

    def plugged():
        blocks[:] = sorted(set(guest.run("ls -d /sys/devices/system/memory/memory*").split()) - before)
        return len(blocks) * 128 == MODULE_MB
    wait_for(plugged, 60, "the guest did not see its new memory")
    for block in blocks:
        guest.run(f"grep -q online {block}/state && ! grep -q offline {block}/state || echo online_movable >{block}/state")
    return blocks


def unplug(guest, server, blocks):
    for block in blocks:
        guest.run(f"echo offline >{block}/state", 120)
    guest.monitor.run("device_del", id="dimm")
    guest.monitor.wait_event("DEVICE_DELETED", lambda data: data.get("device") == "dimm", 60)
    guest.monitor.run("object-del", id="hot")
    wait_for(lambda: module_pages(server.pid) is None, 60, "the device still has the memory that was unplugged")


def expect_size(guest, size_bytes):
    guest.run(f"i=0; while [ $(cat /sys/block/vda/size) -ne {size_bytes // 512} ]; do i=$((i + 1)); "
              "[ $i -lt 200 ] || exit 1; usleep 50000; done")


def resize(guest, server):
    server.control("resize", size_bytes=LARGER_BYTES)
    expect_size(guest, LARGER_BYTES)
    guest.run("head -c 1048576 /dev/urandom >/tmp/end && dd if=/tmp/end of=/dev/vda bs=64k seek=1520 oflag=direct "
              "conv=notrunc 2>/dev/null && dd if=/dev/vda bs=64k skip=1520 iflag=direct 2>/dev/null | cmp - /tmp/end")
    server.control("resize", size_bytes=DISK_BYTES)
    expect_size(guest, DISK_BYTES)
    guest.run("rmmod virtio_blk && test ! -b /dev/vda")
    server.control("resize", size_bytes=LARGER_BYTES)  # while nobody listens
    load_driver(guest)
    expect_size(guest, LARGER_BYTES)
    guest.run("dd if=/dev/vda bs=64k skip=1520 iflag=direct 2>/dev/null | cmp - /tmp/end")


def change_cache_mode(guest):
    for mode in ("write through", "write back"):
        guest.run(f"echo '{mode}' >/sys/block/vda/cache_type && grep -qx '{mode}' /sys/block/vda/cache_type")
        guest.run("dd if=/tmp/end of=/dev/vda bs=64k oflag=direct conv=notrunc 2>/dev/null")


def test(directory, image):
    disk = os.path.join(directory, "disk.img")
    with open(disk, "wb") as image_file:
        image_file.truncate(DISK_BYTES)
    with Device(directory, disk) as server:
        step("boot")
        with Guest(directory, image, server.socket_path, memory_mb=MEMORY_MB,
                   memory_max_mb=MEMORY_MB + 4 * MODULE_MB) as guest:
            load_driver(guest)
            if module_pages(server.pid) is not None:
                raise GuestError("there is memory of the module's size before it is plugged")
            step("plug memory, verify over it")
            blocks = plug(guest)
            guest.run(FIO, 180)
            touched_kib = module_pages(server.pid)
            if not touched_kib:
                raise GuestError(f"no buffer of the guest lay in the new memory (touched: {touched_kib})")
            step(f"the device has touched {touched_kib} KiB of it; unplug it")
            unplug(guest, server, blocks)
            guest.run(FIO, 180)
            step("resize the disk, change its cache mode")
            resize(guest, server)
            change_cache_mode(guest)
            guest.check_console()
            step("power off")
            guest.power_off()
        server.stop()
    if os.path.getsize(disk) != LARGER_BYTES:
        raise GuestError(f"the file has {os.path.getsize(disk)} bytes, not {LARGER_BYTES}")


if __name__ == "__main__":
    sys.exit(device.main(test))
