#!/usr/bin/env python3
"""Goal: `vblkscope` hands over to its subcommands and helps who does not know them.

Method: each form of asking for help, each subcommand's own, and a wrong word. If it fails: users cannot find their way.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from analyze_tool import expect, main, run  # noqa: E402

COMMANDS = ("demo", "record", "analyze", "ctl")


def test_help(folder):
    for words in (["--help"], ["-h"], ["help"]):
        result = run(*words)
        expect(result.status == 0 and result.err == "", result.err)
        for command in COMMANDS:
            expect(f"\n  {command} " in result.out, f"{words}: {command} is listed")


def test_help_of_commands(folder):
    for command in COMMANDS:
        result = run(command, "--help")
        expect(result.status == 0 and f"vblkscope {command}" in result.out, f"{command}: {result.out}{result.err}")


def test_version(folder):
    result = run("--version")
    expect(result.status == 0 and result.out.startswith("vblkscope ") and result.out.count(".") == 2, result.out)


def test_no_command_and_unknown_command(folder):
    result = run()
    expect(result.status == 2 and "Commands:" in result.err and result.out == "", result.err)
    result = run("analyse")
    expect(result.status == 2 and "no command 'analyse'" in result.err, result.err)


main(dict(globals()))
