#!/usr/bin/env python3
"""Goal: the rooms stay apart: includes run one way, and nothing new appears at the root.

Method: each #include that names a file of the tree must be of the includer's own room or one that the room may use
(tracepoints <- runtime <- virtio-blk; analysis knows only the trace), never through `../`; the root holds exactly the
names that the README maps. If it fails: a room has begun to depend on one that must not be below it.
"""

import re

import tree

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+[<"]([^>"]+)[>"]', re.M)
ROOT_NAMES = {*tree.MAY_INCLUDE, "tests", "meson.build", "README.md", "LICENSE"}
# Includes against the direction, each with its reason.
EXCEPTIONS = {
    ("analysis/vblkscope.c", "tracepoints/record.h"): "the program's subcommand `record` is the tracer's business",
}


def room_of_include(name, includer):
    """The room a header belongs to, or None for one of the system's."""
    if (tree.ROOT / includer.parent / name).exists():
        return includer.parts[0]
    own = includer.parts[0]
    for room in sorted(tree.MAY_INCLUDE, key=lambda room: room != own):
        if any((tree.ROOT / room / place / name).exists() for place in ("include", "")):
            return room
    return None


def main():
    problems, checked = [], 0
    for path in tree.files(".c", ".h", ".S"):
        room = path.parts[0]
        for name in INCLUDE.findall(tree.text(path)):
            checked += 1
            if ".." in name.split("/"):
                problems.append(f"{path}: includes {name}: rooms are not left by a path")
            elif room in tree.MAY_INCLUDE:
                other = room_of_include(name, path)
                if (str(path), name) in EXCEPTIONS:
                    continue
                if other and other not in tree.MAY_INCLUDE[room]:
                    problems.append(f"{path}: includes {name} of {other}, which {room} may not use")
    for entry in sorted(tree.ROOT.iterdir()):
        if not entry.name.startswith((".", "build")) and entry.name not in ROOT_NAMES:
            problems.append(f"{entry.name}: nothing else belongs at the root")
    for name in sorted(ROOT_NAMES):
        if not (tree.ROOT / name).exists():
            problems.append(f"{name}: missing at the root")
    for room in tree.MAY_INCLUDE | {"tests": None}:
        if not (tree.ROOT / room / "README.md").exists():
            problems.append(f"{room}/README.md: each room has one")
    tree.finish(problems, checked, "includes")


main()
