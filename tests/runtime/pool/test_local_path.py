#!/usr/bin/python3
"""Goal: a coroutine is taken from the thread's own list and given back without an atomic read-modify-write.

Method: the machine code of the functions on that way is searched for locked instructions. The policies that do need
them, where a list is shared, are searched too, to see that they would be found. If it fails: each life pays for
threads that it has nothing to do with.

Usage: test_local_path.py LIBRARY
"""

import platform
import re
import shutil
import subprocess
import sys

ON_THE_WAY = ["rt_coroutine_create", "rt_pool_take", "rt_coroutine_switch_in", "rt_coroutine_switch_out", "rt_coroutine_main",
              "rt_coroutine_settle", "rt_pool_give"]
SHARED = ["per_thread_overflow", "per_thread_refill"]

LOCKED = {
    # An exchange with memory is locked without saying so.
    "x86_64": re.compile(r"\block\b|\bxchg\s.*\("),
    "aarch64": re.compile(r"\b(ldaxr|ldxr|stxr|stlxr|casal?|casl?|swp[al]*|ld(add|clr|set|eor)[al]*)\b|__aarch64_"),
}
FUNCTION = re.compile(r"^[0-9a-f]+ <([\w.]+)>:$")


def functions(library):
    listing = subprocess.run(["objdump", "--disassemble", "--no-show-raw-insn", "--reloc", library], capture_output=True,
                             text=True, check=True).stdout
    found, name = {}, None
    for line in listing.splitlines():
        match = FUNCTION.match(line)
        if match:
            name = match[1]
            found[name] = []
        elif name and line.strip():
            found[name].append(line.strip())
    return found


def main(library):
    locked = LOCKED.get(platform.machine())
    if not locked or not shutil.which("objdump"):
        print(f"objdump for {platform.machine()} is needed")
        return 77
    found = functions(library)
    problems = 0
    for name in ON_THE_WAY + SHARED:
        lines = [line for line in found.get(name, []) if locked.search(line)]
        if name not in found:
            print(f"{library}: there is no {name}")
        elif name in ON_THE_WAY and lines:
            print(f"{name}: locked:", *lines, sep="\n    ")
        elif name in SHARED and not lines:
            print(f"{name}: no locked instruction is found where one has to be")
        else:
            continue
        problems += 1
    return 1 if problems else 0


sys.exit(main(sys.argv[1]))
