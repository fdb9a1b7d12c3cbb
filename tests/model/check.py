#!/usr/bin/env python3
"""Goal: the lock-free protocols hold under every interleaving and memory order, and each part of them is needed.

Method: SPIN searches all states of a Promela model. The comment at the top of a model says what is to be checked:

  PROOF   NAME DEFINE... MEMORY...                       holds; together the proofs reach every line
  MUTANT  DEFINE of PROOF: PROPERTY in MEMORY... [; holds in MEMORY...]
                                                         the same with one thing taken away: PROPERTY is violated
                                                         (a variable in an assertion, `deadlock`, or `cycle`)

where MEMORY is one of memory.pml. A search that is cut short, by depth or by memory, fails. If a proof fails: the
protocol loses something; `--show` prints how. If a mutant passes: the model does not see what the mutant takes away,
or it is not needed.

Usage: check.py [--list | --show NAME | --short] MODEL.pml [SPIN [CC...]]
  --list       what would be checked
  --show NAME  the steps of the shortest violation that is found
  --short      not in which memories a mutant still holds: that tells what a part is needed for, not whether
Exit status: 0 all as said, 1 not, 2 usage, 77 no SPIN.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SKIP = 77
MEMORY_MAX_MIB = 900
DEPTH_MAX = 1_000_000
SEARCH_MAX_S = 600
HASH_BITS = 20  # of the table of states at first; it grows
MEMORIES = ("SC", "TSO", "PSO", "C11")
TOOLS = ["spin", "cc"]

PROOF = re.compile(r"^ \* PROOF\s+(\w+)\s*(.*)$", re.M)
MUTANT = re.compile(r"^ \* MUTANT\s+(\w+) of (\w+): (\w+) in ([\w ]+?)(?:; holds in ([\w ]+?))?\s*$", re.M)
# What pan says when it has not looked at everything.
CUT_SHORT = ("max search depth too small", "Search not completed", "out of memory", "memory limit", "VECTORSZ")


class Check:
    def __init__(self, name, defines, memory, violated=None, is_proof=False):
        self.name, self.defines, self.memory, self.violated = name, defines, memory, violated
        self.is_proof = is_proof

    def __str__(self):
        return f"{self.name:<26} {self.memory:<4}"


def read_checks(model):
    """What the model's comment asks for."""
    text = model.read_text(encoding="utf-8")
    checks, defines_of = [], {}
    for name, words in PROOF.findall(text):
        defines_of[name] = [word for word in words.split() if word not in MEMORIES]
        checks += [Check(name, defines_of[name], word, is_proof=True) for word in words.split() if word in MEMORIES]
    for name, proof, violated, fails, holds in MUTANT.findall(text):
        if proof not in defines_of:
            sys.exit(f"{model.name}: {name} is a mutant of {proof}, which is no proof")
        if not re.search(rf"\b(ifn?def|defined) *\(?{name}\b", text):
            sys.exit(f"{model.name}: {name} changes nothing: the model does not look at it")
        defines = defines_of[proof] + [name]
        checks += [Check(name, defines, memory, violated) for memory in fails.split()]
        checks += [Check(name, defines, memory) for memory in holds.split()]
    if len([line for line in text.splitlines() if line.startswith((" * PROOF", " * MUTANT"))]) != len(
            PROOF.findall(text)) + len(MUTANT.findall(text)):
        sys.exit(f"{model.name}: a line that begins with PROOF or MUTANT cannot be read")
    return checks


def run(directory, *command):
    """Exit status, output."""
    result = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=SEARCH_MAX_S)
    return result.returncode, result.stdout


def search(model, check, directory, shortest=False):
    """SPIN's report on one check, its files left in @directory; or the tool's error message in an exception."""
    for source in model.parent.glob("*.pml"):
        shutil.copy(source, directory)
    spin, compiler = TOOLS[0], TOOLS[1:]
    liveness = "LIVENESS" in check.defines
    defines = [f"-D{define}" for define in check.defines] + [f"-DMEMORY={check.memory}"]
    status, output = run(directory, spin, *defines, "-a", model.name)
    if status:
        raise RuntimeError(f"spin -a: {output}")
    kind = ["-DNFAIR=3"] if liveness else ["-DSAFETY"]
    kind += ["-DBFS"] if shortest and not liveness else []
    # Most checks take longer to compile than to search.
    optimise = "-O1" if check.memory == "C11" and check.violated is None else "-O0"
    status, output = run(directory, *compiler, optimise, "-w", *kind, f"-DMEMLIM={MEMORY_MAX_MIB}", "-o", "pan", "pan.c")
    if status:
        raise RuntimeError(f"the compiler: {output}")
    # -a -f: acceptance cycles in which every process that can go on does at some time.
    _, output = run(directory, "./pan", f"-m{DEPTH_MAX}", f"-w{HASH_BITS}", *(["-a", "-f"] if liveness else []))
    return output


def reach(report, table):
    """({lines of the model's sources that some run reaches}, {lines that none reaches}).

    A line may stand for several statements, since inlines are expanded: reached at one place is reached.
    @table is what `pan -d` says: every state of every process.
    """
    missed, process = set(), None
    for line in report.splitlines():
        if match := re.match(r"unreached in (?:proctype |claim )?(\S+)", line):
            process = match.group(1)
        elif match := re.match(r"\t\S+\.pml:\d+, state (\d+), ", line):
            missed.add((process, int(match.group(1))))
    reached, all_lines, process = set(), set(), None
    for line in table.splitlines():
        if match := re.match(r"(?:proctype |claim )?(\S+)$", line):
            process = match.group(1)
        elif match := re.match(r"\tstate +(\d+) .*\] (\S+\.pml:\d+) => (.*)$", line):
            if match.group(3) == "-end-":
                continue
            all_lines.add(match.group(2))
            if (process, int(match.group(1))) not in missed:
                reached.add(match.group(2))
    return reached, all_lines - reached


def violated_by(report):
    """What the report says is violated: a name as in MUTANT, or None."""
    assertion = re.search(r"assertion violated (.*?) \(at depth", report)
    if assertion:
        names = re.findall(r"[a-z_]\w*", assertion.group(1))
        return names[0] if names else assertion.group(1)
    if "invalid end state" in report and re.search(r"pan:\d+: invalid end state", report):
        return "deadlock"
    if "acceptance cycle" in report and re.search(r"pan:\d+: acceptance cycle", report):
        return "cycle"
    return None


def judge(check, report):
    """(whether it is as said, one line)."""
    errors = re.search(r"errors: (\d+)", report)
    states = re.search(r"(\d+) states, stored", report)
    if not errors or not states:
        return False, "SPIN's report cannot be read:\n" + report
    found = violated_by(report)
    count = f"{int(states.group(1)):,} states"
    if check.violated:
        if found == check.violated:
            depth = re.search(r"at depth (\d+)", report)
            return True, f"violates {found}, {depth.group(1)} steps in, as a mutant should"
        return False, f"should violate {check.violated}, violates {found or 'nothing'} ({count})"
    if found or errors.group(1) != "0":
        return False, f"violates {found or 'something'}"
    cut = [message for message in CUT_SHORT if message in report]
    if cut:
        return False, f"the search was cut short: {cut[0]} ({count})"
    return True, f"holds in {count}"


def perform(model, check):
    """(whether it is as said, one line, lines reached, lines not reached)."""
    with tempfile.TemporaryDirectory(prefix="model-") as directory:
        try:
            report = search(model, check, directory)
            good, line = judge(check, report)
            if not good or not check.is_proof or "LIVENESS" in check.defines:
                return good, line, set(), set()
            return good, line, *reach(report, run(directory, "./pan", "-d")[1])
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return False, str(error), set(), set()


def show(model, checks, name):
    """The steps of a violation."""
    chosen = [check for check in checks if check.name == name and check.violated] or [
        check for check in checks if check.name == name]
    if not chosen:
        sys.exit(f"{model.name} has no {name} (--list names them)")
    with tempfile.TemporaryDirectory(prefix="model-") as directory:
        report = search(model, chosen[0], directory, shortest=True)
        found = violated_by(report)
        if not found:
            print(f"{chosen[0]}: nothing is violated")
            return
        print(f"{chosen[0]}: violates {found}")
        defines = [f"-D{define}" for define in chosen[0].defines] + [f"-DMEMORY={chosen[0].memory}"]
        _, steps = run(directory, TOOLS[0], *defines, "-t", "-T", "-B", model.name)
        print("\n".join(line for line in steps.splitlines() if re.match(r"[A-Z]\d", line)))


def main():
    arguments = sys.argv[1:]
    action = name = None
    if arguments[:1] in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    if arguments[:1] in (["--list"], ["--short"]):
        action = arguments.pop(0)
    elif arguments[:1] == ["--show"] and len(arguments) > 1:
        action, name = arguments.pop(0), arguments.pop(0)
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    model = Path(arguments.pop(0)).resolve()
    TOOLS[: len(arguments)] = arguments
    if not shutil.which(TOOLS[0]):
        print("spin is not installed (Debian package spin)")
        return SKIP
    checks = read_checks(model)
    if action == "--list":
        for check in checks:
            print(f"{check} {'violates ' + check.violated if check.violated else 'holds':<20} {' '.join(check.defines)}")
        return 0
    if action == "--show":
        show(model, checks, name)
        return 0
    if action == "--short":
        checks = [check for check in checks if check.is_proof or check.violated]
    failed, reached, missed = 0, set(), set()
    # Two at a time: each may take some hundred MiB.
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as workers:
        for check, result in zip(checks, workers.map(lambda check: perform(model, check), checks)):
            good, line, reaches, misses = result
            print(f"{'ok  ' if good else 'FAIL'} {check} {line}", flush=True)
            failed += not good
            reached |= reaches
            missed |= misses
    for line in sorted(missed - reached):
        print(f"FAIL {line}: no proof reaches it")
        failed += 1
    print(f"{len(checks)} checks, {len(reached)} lines of models reached, {failed} failed")
    return 1 if failed or not reached else 0


sys.exit(main())
