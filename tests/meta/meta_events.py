#!/usr/bin/env python3
"""Goal: every event that the catalogue promises is really emitted, from the room that its provider belongs to.

Method: the headers' declarations (tracepoints/catalogue --list) are compared with the calls of lttng_ust_tracepoint()
in runtime/ and virtio-blk/. Events of features that are still to come are named here with the reason; one that has
got its emitter must leave that list.
If it fails: a check waits for an event that never comes, and finds nothing, or an event has lost its call site.
"""

import re
import subprocess
import sys

import tree

# The provider's prefix tells the room that emits it.
ROOMS = {"rt": "runtime", "vblk": "virtio-blk", "vhost": "virtio-blk"}

STILL_TO_COME = {
    "vblk_request:abandoned": "a device that is reset or left drains its requests: none is dropped",
}

CALL = re.compile(r"\blttng_ust_tracepoint\(\s*(\w+),\s*(\w+)\s*[,)]")


def declared():
    listing = subprocess.run(
        [sys.executable, tree.ROOT / "tracepoints" / "catalogue", "--list"], check=True, capture_output=True, text=True
    ).stdout
    return {line.split()[0] for line in listing.splitlines()}


def emitted():
    """{event: rooms that emit it}"""
    found = {}
    for room in sorted(set(ROOMS.values())):
        for path in tree.files(".c", ".h", under=room):
            for provider, name in CALL.findall(tree.text(path)):
                found.setdefault(f"{provider}:{name}", set()).add(room)
    return found


def main():
    events, calls, problems = declared(), emitted(), []
    for event in sorted(events):
        room = ROOMS[event.split("_")[0]]
        if event in STILL_TO_COME:
            if event in calls:
                problems.append(f"{event}: has an emitter, but is listed here as still to come")
        elif event not in calls:
            problems.append(f"{event}: declared, but nothing emits it")
        elif calls[event] != {room}:
            problems.append(f"{event}: belongs to {room}, emitted from {', '.join(sorted(calls[event]))}")
    problems += [f"{event}: listed here, but not declared" for event in sorted(set(STILL_TO_COME) - events)]
    problems += [f"{event}: emitted, but not declared" for event in sorted(set(calls) - events)]
    tree.finish(problems, len(events), "events")


main()
