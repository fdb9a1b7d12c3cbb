#!/usr/bin/env python3
"""Goal: `vblkscope explain` lists all findings, explains each, and says in one line what it does not know.

Method: the program, with its list as the source of ids; bash completion. If it fails: who reads a report cannot look up a finding.

Usage: integration_explain.py COMPLETION
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from analyze_tool import DEADLINE_S, VBLKSCOPE, expect, main, run  # noqa: E402

COMPLETION = sys.argv[1]
COMPLETE = r"""
. "$1"; shift
COMP_WORDS=(vblkscope "$@"); COMP_CWORD=$#; COMPREPLY=()
_vblkscope
printf '%s\n' "${COMPREPLY[@]}"
"""


def listed():
    lines = run("explain").out.split("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines if not line.startswith(" ")]


def test_list_and_pages(_):
    ids = listed()
    known = run("analyze", "--checks=?", "/").err.partition("(there are: ")[2].partition(")")[0].split(", ")
    expect(ids == known, f"{ids} are listed, {known} exist")
    result = run("explain", *ids)
    expect(result.status == 0, result.err)
    expect([page.split()[0] for page in result.out.split("\n\n\n")] == ids, result.out)
    expect(not any(line != line.rstrip() or len(line) > 110 for line in result.out.splitlines()), result.out)


def test_mistakes(_):
    for words, said in ((["stale"], "stale: there is no such finding"), (["--what"], "Unknown option"),
                        (["a\033[1m"], "a\\x1b[1m: there is")):
        result = run("explain", *words)
        expect(result.status == 2 and said in result.err and not result.out, result.err)
    with open("/dev/full", "w") as full:
        process = subprocess.run([VBLKSCOPE, "explain"], stdout=full, stderr=subprocess.PIPE, text=True)
    expect(process.returncode == 1 and "No space left" in process.stderr, process.stderr)


def test_completion(_):
    environment = {**os.environ, "PATH": f"{os.path.dirname(VBLKSCOPE)}:{os.environ['PATH']}"}
    result = subprocess.run(["bash", "-c", COMPLETE, "bash", COMPLETION, "explain", "lo"], capture_output=True, text=True,
                            env=environment, timeout=DEADLINE_S)
    wanted = [id for id in listed() if id.startswith("lo")]
    expect(result.stdout.split() == wanted, f"{result.stdout} {result.stderr}")


main(globals())
