#!/usr/bin/env python3
"""Goal: no source file is without a test that one finds by its name.

Method: runtime/loop/timer.c is tested by tests/runtime/loop/PREFIX_timer*, with a prefix of tests/README.md. A file
that is tested under another name is listed in covered-elsewhere with that test and the reason. If it fails: a file was
added or renamed without its test, or an entry of the list is no longer true.
"""

import re

import tree

PREFIX = re.compile(r"^(test|integration|stress|fuzz)_")
LIST = "tests/meta/covered-elsewhere"


def mirrors(source):
    place = tree.ROOT / "tests" / source.parent
    if not place.is_dir():
        return False
    for entry in place.iterdir():
        stem = PREFIX.sub("", entry.stem)
        if PREFIX.match(entry.name) and (stem == source.stem or stem.startswith(source.stem + "_")):
            return True
    return False


def read_list(problems):
    """{source: test} of the exceptions."""
    result = {}
    for number, line in enumerate(tree.text(LIST).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(None, 2)
        if len(fields) != 3:
            problems.append(f"{LIST}:{number}: source, test and reason are needed")
            continue
        source, test, _ = fields
        result[source] = test
        if not (tree.ROOT / source).is_file():
            problems.append(f"{LIST}:{number}: {source} does not exist")
        if not (tree.ROOT / test).is_file():
            problems.append(f"{LIST}:{number}: {test} does not exist")
    return result


def main():
    problems = []
    listed = read_list(problems)
    sources = [path for path in tree.files(".c", ".S") if path.parts[0] in tree.MAY_INCLUDE]
    for source in sources:
        if mirrors(source):
            if str(source) in listed:
                problems.append(f"{LIST}: {source} has its own test; remove the entry")
        elif str(source) not in listed:
            problems.append(f"{source}: no test in tests/{source.parent} (PREFIX_{source.stem}) and not in {LIST}")
    tree.finish(problems, len(sources), "source files")


main()
