#!/usr/bin/env python3
"""Goal: exit statuses are as documented, data goes to stdout and each failure is one line on stderr.

Method: command lines that need no server. If it fails: scripts that use vblk-load misread what happened.

Usage: integration_vblk-load.py PROGRAM
"""

import subprocess
import sys

CASES = [
    (["--help"], 0), (["verify", "--help"], 0), (["info", "--help"], 0), (["--version"], 0),
    ([], 2), (["verify"], 2), (["info"], 2), (["--no-such-option"], 2), (["frobnicate"], 2),
    (["--socket-path=/nonexistent/socket"], 1), (["verify", "--socket-path=/dev/null"], 1),
    (["info", "--socket-path=" + "x" * 200], 1),
]

for arguments, status in CASES:
    outcome = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, check=False)
    assert outcome.returncode == status, (arguments, outcome)
    assert (outcome.stdout != "") == (status == 0), (arguments, outcome)
    assert len(outcome.stderr.splitlines()) == (status != 0), (arguments, outcome)
    assert status == 0 or outcome.stderr.startswith("vblk-load: "), (arguments, outcome)

# A result that cannot be written is a failure, not silence.
with open("/dev/full", "w", encoding="ascii") as full:
    outcome = subprocess.run([sys.argv[1], "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
assert outcome.returncode == 1 and "cannot write" in outcome.stderr, outcome
