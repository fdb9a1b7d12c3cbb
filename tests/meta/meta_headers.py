#!/usr/bin/env python3
"""Goal: a program can include any public header first, alone, with only the rooms below it in sight.

Method: each header under */include compiles by itself as C11, warnings as errors, with the include directories that its
room may use. If it fails: the header needs another one that it does not include, or reaches into a room above it.

Usage: meta_headers.py COMPILER...
"""

import os
import subprocess
import sys

import tree

FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-fsyntax-only",
         "-x", "c"]
# Libraries whose types public headers may mention.
LIBRARIES = ["glib-2.0", "lttng-ust", "liburcu"]


def library_flags():
    command = ["pkg-config", "--cflags", *LIBRARIES]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def main():
    compiler = sys.argv[1:]
    if not compiler:
        sys.exit(__doc__)
    libraries = library_flags()
    problems, checked = [], 0
    for header in tree.files(".h"):
        room = header.parts[0]
        if len(header.parts) < 3 or header.parts[1] != "include" or room not in tree.MAY_INCLUDE:
            continue
        checked += 1
        places = [f"-I{tree.ROOT / other / 'include'}" for other in sorted(tree.MAY_INCLUDE[room])]
        name = header.relative_to(os.path.join(room, "include"))
        # Twice: the guard must hold (a provider's header is read several times by design).
        source = f'#include "{name}"\n#include "{name}"\n'
        command = [*compiler, *FLAGS, *places, *libraries, "-"]
        result = subprocess.run(command, input=source, capture_output=True, text=True)
        if result.returncode:
            problems.append(f"{header} does not compile alone:\n{result.stderr}")
    tree.finish(problems, checked, "public headers")


main()
