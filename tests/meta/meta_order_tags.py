#!/usr/bin/env python3
"""Goal: every side of a memory-ordering protocol can be found from every other.

Method: a comment `ORDER name` marks each side of a cross-thread edge; a name found in one place only has lost its
partner. If it fails: one side was renamed or removed, or the tag has a spelling mistake.
"""

import re
from collections import defaultdict

import tree

TAG = re.compile(r"\bORDER ([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+)")


def main():
    places = defaultdict(list)
    for path in tree.files(".c", ".h", ".S"):
        if path.parts[0] == "tests":
            continue  # a test mentions a tag, it is no side of it
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for tag in TAG.findall(line):
                places[tag].append(f"{path}:{number}")
    problems = [f"{where[0]}: ORDER {tag} stands alone" for tag, where in sorted(places.items()) if len(where) == 1]
    tree.finish(problems, len(places), "ORDER tags")


main()
