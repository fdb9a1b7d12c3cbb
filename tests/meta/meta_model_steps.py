#!/usr/bin/env python3
"""Goal: a model and the code that it is a model of do not drift apart.

Method: `ORDER tag [N1 N2]` in the source names steps of a protocol; each must be in a model of tests/model, and each
step of a model in the source. Each mutant of a model stands in a README's table, in a column `mutant`, next to what
goes wrong without what it takes away; and what stands there is a mutant. If it fails: one of them was changed alone.
"""

import re

import tree

STEPS = re.compile(r"\bORDER ([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+) \[([A-Z]\d+(?: [A-Z]\d+)*)\]")
TAG = re.compile(r"\bORDER ([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+)")
MUTANT = re.compile(r"^ \* MUTANT (\w+) ", re.M)
SOURCES = ("runtime", "virtio-blk")


def steps_of(path, result):
    for tag, steps in STEPS.findall(tree.text(path)):
        for step in steps.split():
            result.setdefault((tag, step), path)


def explained_mutants():
    """{mutant: README} of the tables with a column `mutant`."""
    result = {}
    for room in SOURCES:
        column = None
        for line in tree.text(f"{room}/README.md").splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
            if not cells:
                column = None
            elif "mutant" in cells:
                column = cells.index("mutant")
            elif column is not None and column < len(cells):
                for name in re.findall(r"`(\w+)`", cells[column]):
                    result[name] = f"{room}/README.md"
    return result


def main():
    problems, in_source, in_models, mutants, source_tags = [], {}, {}, {}, set()
    for path in tree.files(".c", ".h"):
        if path.parts[0] in SOURCES:
            steps_of(path, in_source)
            source_tags.update(TAG.findall(tree.text(path)))
    for path in tree.files(".pml", under="tests/model"):
        steps_of(path, in_models)
        for name in MUTANT.findall(tree.text(path)):
            mutants[name] = path
        problems += [f"{path}: ORDER {tag} is in no source" for tag in set(TAG.findall(tree.text(path))) - source_tags]
    for (tag, step), path in sorted(in_source.items()):
        if (tag, step) not in in_models:
            problems.append(f"{path}: ORDER {tag} [{step}] is in no model")
    for (tag, step), path in sorted(in_models.items()):
        if (tag, step) not in in_source:
            problems.append(f"{path}: ORDER {tag} [{step}] is in no source")
    explained = explained_mutants()
    for name in sorted(mutants.keys() - explained.keys()):
        problems.append(f"{mutants[name]}: {name} is in no README's table of mutants")
    for name in sorted(explained.keys() - mutants.keys()):
        problems.append(f"{explained[name]}: {name} is no mutant of a model")
    tree.finish(problems, len(in_models) + len(mutants), "steps and mutants")


main()
