#!/usr/bin/env python3
"""Goal: each historical mistake that vblkd can bring back is documented, and shown by a test to strike.

Method: vblkd lists the names that it knows when it gets an unknown one; each must be in its manual page and in a test
outside this directory. If it fails: a fault exists whose detection nobody tests.

Usage: meta_faults.py VBLKD
"""

import re
import subprocess
import sys

import tree

PAGE = "virtio-blk/vblkd.1"


def known_faults(vblkd):
    command = [vblkd, "--socket-path=/nonexistent", "--blk-file=null:1M", "--fault=no-such-fault"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    found = re.search(r"known are: (.*)", result.stderr)
    if result.returncode != 2 or not found:
        sys.exit(f"an unknown fault is no usage error that lists the known ones (status {result.returncode}): "
                 f"{result.stderr}")
    return found[1].replace(",", " ").split()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    faults = known_faults(sys.argv[1])
    page = tree.text(PAGE).replace(r"\-", "-")
    tests = "".join(tree.text(path) for path in tree.files(".c", ".py", ".sh", under="tests")
                    if path.parts[1] != "meta")
    problems = [f"{PAGE}: fault {name} is not described" for name in faults if name not in page]
    problems += [f"tests: no test uses fault {name}" for name in faults if name not in tests]
    tree.finish(problems, len(faults), "faults")


main()
