#!/usr/bin/env python3
"""Goal: every script can at least be read by its interpreter.

Method: `sh -n` or `bash -n` for shell scripts, a compilation for Python; a script is told by its first line. Also,
each says in its first lines what it is for. If it fails: a script would break when first run.
"""

import subprocess

import tree

SHELLS = {"#!/bin/sh": "sh", "#!/bin/bash": "bash"}


def main():
    problems, checked = [], 0
    for path in tree.files():
        if not tree.is_text(path):
            continue
        source = tree.text(path)
        first = source.split("\n", 1)[0]
        if path.suffix == ".py" or first.startswith("#!") and "python" in first:
            checked += 1
            try:
                compile(source, str(path), "exec")
            except SyntaxError as error:
                problems.append(f"{path}:{error.lineno}: {error.msg}")
            if '"""' not in source[:400]:
                problems.append(f"{path}: does not say what it is for")
        elif first in SHELLS or path.suffix == ".sh":
            checked += 1
            shell = SHELLS.get(first, "sh")  # a file without an interpreter is read by another script
            result = subprocess.run([shell, "-n", tree.ROOT / path], capture_output=True, text=True)
            if result.returncode:
                problems.append(f"{path}: {result.stderr.strip()}")
            if not any(line.startswith("# ") for line in source.split("\n")[:2]):
                problems.append(f"{path}: does not say what it is for")
        elif first.startswith("#!"):
            problems.append(f"{path}: unknown interpreter {first}")
    tree.finish(problems, checked, "scripts")


main()
