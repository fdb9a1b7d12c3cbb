#!/usr/bin/env python3
"""Goal: a Linux guest does not notice that its vblkd is killed: what was in flight is completed by the next one, once.

Method: QEMU reconnects by itself and keeps the in-flight region; fio writes and verifies on both queues of a disk that
completes out of order; three times vblkd gets SIGKILL in the middle and another one takes its place. fio must end well,
each vblkd must have taken up requests, and the guest's kernel must have nothing to complain about. Split rings, then packed
ones.

If it fails: a request is lost (fio hangs), completed twice or with the wrong data (fio's checksums differ), or the guest is
never told of what was completed just before a kill (it hangs as well).

Usage: guest_restart.py
"""

import os
import sys

import device
from device import Device, QUEUES, step, wait_for
from guest import Guest, GuestError, load_driver

DISK_BYTES = 64 << 20
KILLS = 3
REQUESTS_BETWEEN = 1500
FIO = ("/usr/sbin/fio --name=verify --filename=/dev/vda --rw=randwrite --bs=4k --size=24M --offset_increment=24M "
       "--numjobs=2 --cpus_allowed=0-1 --cpus_allowed_policy=split --ioengine=libaio --iodepth=32 --direct=1 "
       "--verify=crc32c --verify_fatal=1 --thread")


def requests_done(guest):
    reads, _, _, _, writes = map(int, guest.run("cat /sys/block/vda/stat").split()[:5])
    return reads + writes


def kill_under_load(server, guest):
    """How many requests the device's successors took up."""
    guest.run(f"({FIO} >/tmp/fio.log 2>&1; echo $? >/tmp/fio.status) >/dev/null 2>&1 & echo started")
    recovered = 0
    for number in range(1, KILLS + 1):
        enough = requests_done(guest) + REQUESTS_BETWEEN
        wait_for(lambda: requests_done(guest) >= enough, 120, f"{REQUESTS_BETWEEN} requests of fio")
        server.kill_and_restart()
        wait_for(lambda: "front end connected" in server.log(), 60, "QEMU comes back")
        before = requests_done(guest)
        wait_for(lambda: requests_done(guest) > before, 60, f"requests after kill {number}")
        recovered += server.log().count("requests were in flight")
    wait_for(lambda: guest.run("cat /tmp/fio.status 2>/dev/null || true").strip(), 180, "fio ends")
    if guest.run("cat /tmp/fio.status").strip() != "0":
        raise GuestError(f"fio failed: {guest.run('cat /tmp/fio.log')}")
    return recovered


def test(directory, image):
    for rings in ("split", "packed"):
        place = os.path.join(directory, rings)
        os.mkdir(place)
        disk = os.path.join(place, "disk.img")
        with open(disk, "wb") as image_file:
            image_file.truncate(DISK_BYTES)
        with Device(place, disk, options=("--inject=delay-us=500,reorder=50",)) as server:
            step(f"boot, {rings} rings")
            with Guest(place, image, server.socket_path, queues=QUEUES, reconnects=True,
                       disk_options="packed=on" if rings == "packed" else "") as guest:
                load_driver(guest)
                step(f"fio, and {KILLS} kills")
                recovered = kill_under_load(server, guest)
                step(f"{recovered} times a queue had requests in flight")
                if recovered == 0:
                    raise GuestError("no kill found a request in flight: nothing was tested")
                guest.check_console()
                guest.power_off()
            server.stop()


if __name__ == "__main__":
    sys.exit(device.main(test))
