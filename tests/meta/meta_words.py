#!/usr/bin/env python3
"""Goal: the project does not depend on, or talk about, the machine that it was written on.

Method: no text file holds an absolute path of somebody's home or work directory, a path out of the tree, or the
address of a package registry. If it fails: what works here would not work after a clone elsewhere.
"""

import re

import tree

# Written so that this file does not match itself.
PATTERNS = {
    "a path of one machine": re.compile(r"(?<![\w.$}])/(?:home/\w|root/|work/|tmp/w/)"),
    "a path out of the tree": re.compile(r"\.\./share[d]\b"),
    "the address of a registry": re.compile(r"https?://[\w.-]*(?:registry|artifact|proxy|mirror)[\w.-]*", re.I),
}


def main():
    problems, checked = [], 0
    for path in tree.files():
        if not tree.is_text(path) or str(path) == "tests/meta/meta_words.py":
            continue
        checked += 1
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for what, pattern in PATTERNS.items():
                if pattern.search(line):
                    problems.append(f"{path}:{number}: {what}: {line.strip()[:120]}")
    tree.finish(problems, checked, "text files")


main()
