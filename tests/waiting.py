"""Waiting for conditions, for tests that start processes: never a sleep that hopes."""

import time


class TimeOut(Exception):
    """What did not come about, and how long it was waited for."""


def wait_for(condition, timeout_s, what):
    """Poll until @condition gives something true, and return that; TimeOut says @what was waited for."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeOut(f"{what} within {timeout_s} s")
        time.sleep(0.01)


def is_listening(path):
    """Whether a process listens at a socket path; told by the kernel's table, because to connect would use it up."""
    accepting = "00010000"
    with open("/proc/net/unix") as table:
        entries = [line.split() for line in table]
    return any(len(entry) == 8 and entry[7] == path and entry[3] == accepting for entry in entries)
