#!/usr/bin/env python3
"""Goal: a mistake in the order of dataplane start and stop is seen in a real guest, with tracing and without.

Method: the guest loads its driver, reads the disk and unloads the driver. With --fault=started-before-attach the stop
leaves a closed descriptor in a loop: one thread runs at full speed although nothing is to be done (seen in its
processor time, as `top -H` shows it), and the recording's verdict is `stale-fd`. The healthy twin does the same: no
thread may run, the driver loads again and reads the same data, and nothing is found.

If it fails: the fault no longer strikes (then its detection is untested), the healthy device spins after a stop, or
the analysis misses the fault or raises a false alarm.

Usage: guest_stale_fd.py
"""

import os
import subprocess
import sys

import device
from device import QUEUES, Device, analyze, busiest_thread, step
from guest import Guest, GuestError, load_driver

DISK_BYTES = 64 << 20
# A spinning thread is runnable all the time, an idle loop never: far apart even on a busy machine.
SPINNING_SHARE = 0.8
IDLE_SHARE = 0.2
FAULT = "--fault=started-before-attach"


def expect_spinning(pid):
    name, share = busiest_thread(pid)
    top = subprocess.run(["top", "-H", "-b", "-n1", "-d1", "-p", str(pid)], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True).stdout
    print("\n".join(top.splitlines()[6:12]), flush=True)
    if share < SPINNING_SHARE:
        raise GuestError(f"{FAULT} shows no spinning loop after the driver left: busiest is {name}, {share:.0%}")
    step(f"thread {name} spins: runnable {share:.0%} of the time")


def expect_idle(pid):
    name, share = busiest_thread(pid)
    if share > IDLE_SHARE:
        raise GuestError(f"without a driver thread {name} should be idle, and is runnable {share:.0%} of the time")
    step(f"all threads idle: the busiest, {name}, is runnable {share:.1%} of the time")


def write_disk(path):
    """Known, varied content: what is read back after a reload must be this."""
    with open(path, "wb") as disk:
        disk.write(os.urandom(DISK_BYTES))


def read_disk(guest):
    return guest.run("echo 3 >/proc/sys/vm/drop_caches; sha256sum /dev/vda", 120).split()[0]


def unload_driver(guest):
    guest.run("rmmod virtio_blk && test ! -b /dev/vda")


def run(directory, image, faulty):
    """One guest with one device; returns its trace."""
    disk = os.path.join(directory, "disk.img")
    if not os.path.exists(disk):
        write_disk(disk)
    with Device(directory, disk, options=[FAULT] if faulty else [], recorded=True) as server:
        with Guest(directory, image, server.socket_path, queues=QUEUES) as guest:
            load_driver(guest)
            first = read_disk(guest)
            unload_driver(guest)
            if faulty:
                expect_spinning(server.pid)
            else:
                expect_idle(server.pid)
                load_driver(guest)
                if read_disk(guest) != first:
                    raise GuestError("after a reload of the driver the disk reads differently")
                unload_driver(guest)
                expect_idle(server.pid)
            guest.check_console()
            guest.power_off()
        server.stop()
    return server.trace


def check_fault(trace):
    status, report = analyze(trace)
    stale = [finding for finding in report["findings"] if finding["id"] == "stale-fd"]
    if status != 1 or not stale:
        raise GuestError(f"no stale-fd in the recording of the faulty device (status {status})")
    for finding in stale:
        missing = [key for key in ("loop", "fd", "handler_id", "device_id", "queue_index")
                   if finding["subject"].get(key) is None]
        if missing:
            raise GuestError(f"stale-fd does not say which {', '.join(missing)}: {finding['subject']}")
    if not any(entry["event"] == "vblk_dataplane:drain_begin" for finding in stale for entry in finding["evidence"]):
        raise GuestError("stale-fd does not show the drain that attached the descriptor")


def check_health(trace):
    status, report = analyze(trace)
    if status != 0:
        raise GuestError(f"the healthy twin is not found healthy (status {status}): {report['findings']}")


def test(directory, image):
    for faulty, check in ((False, check_health), (True, check_fault)):
        step(FAULT if faulty else "healthy device")
        place = os.path.join(directory, "faulty" if faulty else "healthy")
        os.mkdir(place)
        check(run(place, image, faulty))


if __name__ == "__main__":
    sys.exit(device.main(test))
