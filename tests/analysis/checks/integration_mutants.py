#!/usr/bin/env python3
"""Goal: the tests of the checks would notice if a check were gone, or if one of its conditions were another one.

Method: each check's unit test runs with that check left out (FEED_WITHOUT, feed.c) and has to fail. With --conditions N, N
conditions of each check (all with 0) are turned round in a copy of its source, which is compiled and linked with the rest
and has to be caught by its tests; survivors are listed with their line.
If it fails: a test cannot fail, and the next change may break the check unseen.

Usage: integration_mutants.py BUILD [--conditions N]
"""

import concurrent.futures
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CHECKS = ROOT / "analysis/checks"
# what may stand in place of an operator with blanks around it
TURNS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
OPERATOR = re.compile(r" (<=|>=|==|!=|&&|\|\||<|>) ")
DEADLINE_S = 120


def checks():
    """{source file: ids} of all checks."""
    found = {}
    for source in sorted(CHECKS.glob("*.c")):
        ids = re.search(r"\.ids = \{([^}]*)\}", source.read_text())
        if ids:
            found[source] = re.findall(r'"([^"]+)"', ids[1])
    return found


def test_program(build, source):
    return build / "tests/analysis" / f"test_{source.stem}"


def passes(program, **environment):
    return subprocess.run([program], env=dict(os.environ, **environment), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=DEADLINE_S, check=False).returncode == 0


def places(source):
    """(line number, start, end, replacement) of each condition in the code of a check, without what only makes texts."""
    for number, line in enumerate(source.read_text().splitlines()):
        code = line.split("/*")[0]
        if '"' in code or code.lstrip().startswith(("*", "for (", "#")):
            continue
        for match in OPERATOR.finditer(code):
            yield number, match.start(1), match.end(1), TURNS[match[1]]


def compile_command(build, source):
    commands = subprocess.run(["/usr/bin/ninja", "-C", build, "-t", "compdb", "c_COMPILER"], capture_output=True, text=True,
                              check=True).stdout
    wanted = re.search(r'"command": "((?:[^"\\]|\\.)*-o analysis/libanalysis-core\.a\.p/checks_%s\.c\.o(?:[^"\\]|\\.)*)"'
                       % source.stem, commands)
    return shlex.split(wanted[1].encode().decode("unicode_escape"))


def survives(build, source, place, command):
    """Does the check's test pass although this condition is turned round?"""
    number, start, end, other = place
    lines = source.read_text().splitlines()
    lines[number] = lines[number][:start] + other + lines[number][end:]
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        mutant, compiled, program = Path(folder) / source.name, Path(folder) / "mutant.o", Path(folder) / "test"
        mutant.write_text("\n".join(lines) + "\n")
        arguments = [argument for argument in command if argument not in ("-MD", "-c", "ccache")]
        for option in ("-o", "-MQ", "-MF"):
            at = arguments.index(option)
            del arguments[at:at + 2]
        arguments = [a for a in arguments if not a.endswith(source.name)]
        if subprocess.run([*arguments, "-w", "-c", mutant, "-o", compiled], cwd=build, stderr=subprocess.DEVNULL,
                          check=False).returncode:
            return False
        core = build / "analysis/libanalysis-core.a"
        objects = [build / f"tests/analysis/test_{source.stem}.p/checks_test_{source.stem}.c.o", compiled,
                   build / "tests/analysis/libanalysis-feed.a", core, build / "analysis/libanalysis-events.a"]
        subprocess.run([arguments[0], *[a for a in arguments if a.startswith("-fsanitize")], "-o", program, *objects, "-Wl,-z,muldefs",
                        "-lcmocka", "-lglib-2.0", "-ljansson", "-lm"], check=True)
        try:
            return passes(program)
        except subprocess.TimeoutExpired:
            return False


def turn_conditions(build, count):
    survivors = total = 0
    seed = random.randrange(1 << 32)
    generator = random.Random(seed)
    print(f"seed {seed}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source in checks():
            command = compile_command(build, source)
            chosen = list(places(source))
            if count:
                chosen = sorted(generator.sample(chosen, min(count, len(chosen))))
            for place, alive in zip(chosen, pool.map(lambda p, s=source, c=command: survives(build, s, p, c), chosen)):
                total += 1
                if alive:
                    survivors += 1
                    line = source.read_text().splitlines()[place[0]].strip()
                    print(f"survives {source.name}:{place[0] + 1}: {place[3]} instead in: {line}", flush=True)
    print(f"{total} conditions turned round, {total - survivors} noticed")


def main():
    build, wrong = Path(sys.argv[1]).resolve(), 0
    for source, ids in checks().items():
        program = test_program(build, source)
        if not passes(program):
            print(f"FAIL {program.name} does not pass as it is")
            wrong += 1
        for without in [ids] + ([[id] for id in ids] if len(ids) > 1 else []):
            if passes(program, FEED_WITHOUT=" ".join(without)):
                print(f"FAIL {program.name} passes without {' and '.join(without)}")
                wrong += 1
    print(f"{len(checks())} checks, {wrong} of their tests wrong")
    if "--conditions" in sys.argv:
        turn_conditions(build, int(sys.argv[sys.argv.index("--conditions") + 1]))
    return 1 if wrong else 0


sys.exit(main())
