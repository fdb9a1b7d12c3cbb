#!/usr/bin/env python3
"""Goal: every benchmark works, before somebody needs its figures.

Method: runs one with --quick --json and looks at what it prints: the form that tests/README.md describes, a figure or words
in every row, and numbers that are numbers. No time is judged. If it fails: `sh tests/run bench` would fail, or would
publish rows without figures.

Usage: check_quick.py BENCHMARK [ARGUMENT...]
"""

import json
import math
import subprocess
import sys

SIDES = {"change": ("old", "new"), "times": ("limit", "figure"), "figure": ("figure",)}


def refuse_constant(name):
    raise ValueError(f"{name} is no number in JSON")


def check_row(where, form, row):
    assert row["name"] and row["better"] in ("lower", "higher"), where
    if "unavailable" in row:
        assert row["unavailable"], where
        return
    counts = set()
    for side in SIDES[form]:
        assert row[side].get("words") or row[side]["values"], f"{where}: neither figures nor words: {side}"
        assert not row[side].get("words", "").startswith("failed"), f"{where}: {row[side]['words']}"
        assert all(math.isfinite(value) for value in row[side]["values"]), f"{where}: {row[side]['values']}"
        if not row[side].get("words"):
            counts.add(len(row[side]["values"]))
    assert len(counts) <= 1, f"{where}: figures without a partner"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    result = subprocess.run([*sys.argv[1:], "--quick", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if result.returncode == 77:
        print(result.stdout)
        return 77
    assert result.returncode == 0, f"{sys.argv[1:]}: status {result.returncode}\n{result.stdout}"
    document = json.loads(result.stdout, parse_constant=refuse_constant)
    assert document["schema"] == "vblkscope-bench-1" and document["about"] and document["quick"] is True
    assert document["machine"]["cores"] > 0 and document["machine"]["kernel"] and document["machine"]["compiler"]
    rows = 0
    for group in document["groups"]:
        assert group["title"] and group["form"] in SIDES, group
        for row in group["rows"]:
            check_row(f"{group['title']}: {row['name']}", group["form"], row)
            rows += 1
    assert rows, "no row"
    print(f"{document['benchmark']}: {len(document['groups'])} groups, {rows} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
