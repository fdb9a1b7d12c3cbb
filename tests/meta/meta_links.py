#!/usr/bin/env python3
"""Goal: the documentation leads where it says.

Method: each relative link of a Markdown file points to a file or directory of the tree, and its #anchor to a heading
there. If it fails: something was moved or renamed and its readers were left behind.
"""

import re

import tree

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors(path):
    """Headings as they are linked to: lower case, without punctuation, spaces as dashes."""
    headings = re.findall(r"^#+ +(.*)$", FENCE.sub("", tree.text(path)), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def main():
    problems, checked = [], 0
    documents = tree.files(".md")
    for path in documents:
        for match in LINK.findall(FENCE.sub("", tree.text(path))):
            target = match[0] or match[1]
            if re.match(r"[a-z]+:", target):
                continue
            checked += 1
            name, _, anchor = target.partition("#")
            destination = (tree.ROOT / path.parent / name).resolve() if name else tree.ROOT / path
            if not destination.exists() or tree.ROOT not in [destination, *destination.parents]:
                problems.append(f"{path}: {target} leads nowhere")
            elif anchor and destination.suffix == ".md" and anchor not in anchors(destination.relative_to(tree.ROOT)):
                problems.append(f"{path}: {target}: no such heading")
    tree.finish(problems, len(documents), f"documents ({checked} links)")


main()
