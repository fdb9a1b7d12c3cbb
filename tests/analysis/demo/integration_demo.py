#!/usr/bin/env python3
"""Goal: the demo shows both verdicts, and says so when it could not show them.

Method: `vblkscope demo` runs once as it is; once with a device that ignores --fault, so that nothing is to be found and
the demo must fail; once with a device that does not start. If it fails: the first thing that a new user sees is
broken, or would claim a success that it did not have.

Programs: $VBLKD, $VBLKSCOPE; vblkscope finds the others beside itself.
"""

import os
import re
import subprocess
import sys
import tempfile

DEADLINE_S = 170


def demo(directory, *options, device=None):
    environment = {**os.environ, "TMPDIR": directory}
    environment.pop("VBLKD")
    if device:
        environment["VBLKD"] = device
    return subprocess.run([os.environ["VBLKSCOPE"], "demo", *options], env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S)


def write_script(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w") as script:
        script.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def expect(condition, what, result):
    if not condition:
        print(f"FAILED: {what} (status {result.returncode}); the demo said:\n{result.stdout}")
        sys.exit(1)


def check_success(directory):
    output = os.path.join(directory, "shown")
    result = demo(directory, f"--output={output}")
    expect(result.returncode == 0, "the demo does not succeed", result)
    _, healthy, faulty = re.split(r"(?m)^==== [12] of 2:", result.stdout)
    expect("stale-fd" not in healthy, "the healthy device has a stale-fd", result)
    expect("stale-fd" in faulty and "drain" in faulty, "the fault's report names no stale-fd and drain", result)
    for name in ("report.txt", "report.json"):
        for half in ("healthy", "fault"):
            path = os.path.join(output, half, name)
            expect(os.path.exists(path) and os.path.getsize(path), f"{path} is missing or empty", result)
            expect(os.path.dirname(path) in result.stdout, f"{path} is not named", result)


def check_missed_fault(directory):
    device = write_script(directory, "never-faulty", f"""
for argument; do
    shift
    case $argument in --fault=*) ;; *) set -- "$@" "$argument" ;; esac
done
exec {os.environ["VBLKD"]} "$@"
""")
    result = demo(directory, device=device)
    expect(result.returncode == 1, "a fault that was not there was shown", result)


def check_dead_device(directory):
    device = write_script(directory, "dead", "echo no disk today >&2; exit 1\n")
    result = demo(directory, device=device)
    expect(result.returncode == 1 and "no disk today" in result.stdout,
           "a device that does not start is no failure", result)
    result = demo(directory, "--no-such-option")
    expect(result.returncode == 2, "a wrong option is no usage error", result)


def main():
    with tempfile.TemporaryDirectory(prefix="vblk-demo-") as directory:
        check_success(directory)
        check_missed_fault(directory)
        check_dead_device(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
