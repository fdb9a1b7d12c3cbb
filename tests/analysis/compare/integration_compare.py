#!/usr/bin/env python3
"""Goal: `vblkscope compare` sets recordings, folders of them and reports side by side, and its exit status is what its manual says.

Method: built recordings of 30 s with a known rate of completions, as two, as sets, as folders of repeats; damaged ones; every mistake.
If it fails: a script that watches for regressions sees none, or some that are none.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from analyze_tool import BROKEN_QUEUE, build, expect, main, run  # noqa: E402


def recording(folder, rate, extra=""):
    events = BROKEN_QUEUE if extra else """
1.6 cpu0 vtid=7 vblk_dataplane:device_create device_id=1 name=disk queue_count=1
"""
    lines = [f"{at} cpu0 vtid=7 vblk_queue:sample device_id=1 queue_index=0 completions={rate * at + at % 3} kicks={rate * at}"
             for at in range(5, 36)]
    return build(folder, events + "\n".join(lines) + "\n")


def rows(result):
    return {row["name"]: row for row in result.report["rows"]}


def test_two_recordings(folder):
    old, new = recording(folder / "old", 1000), recording(folder / "new", 700)
    result = run("compare", "--format=json", old, new)
    row = rows(result)["completions"]
    expect(result.status == 0 and row["verdict"] == "worse" and -31 < row["change_percent"] < -29, row)
    expect(990 < row["old"] < 1010 and result.report["schema"] == "vblkscope-compare-1", row)
    text = run("compare", old, new)
    expect("OLD" in text.out and "worse" in text.out and "give several of each" in text.out, text.out)
    expect(run("compare", "--fail-on-regression=20", old, new).status == 1, "a regression of 30 %")
    expect(run("compare", "--fail-on-regression=50", old, new).status == 0, "not of 50 %")
    expect(run("compare", "--fail-on-regression=0", new, old).status == 0, "an improvement")
    expect(rows(run("compare", "--format=json", old, old))["completions"]["verdict"] == "same", "itself")


def test_sets_and_folders(folder):
    old = [recording(folder / f"before/{i}", 1000 + 10 * i) for i in range(3)]
    new = [recording(folder / f"after/{i}", 1300 + 10 * i) for i in range(3)]
    result = run("compare", "--format=json", *old, "--", *new)
    expect(result.report["old_runs"] == result.report["new_runs"] == 3, result.out)
    expect(rows(result)["completions"]["verdict"] == "better", result.out)
    expect(run("compare", "--format=json", folder / "before", folder / "after").out == result.out, "folders of repeats")
    parts = folder / "one"
    for name in ("ust/uid/0", "kernel/x"):
        recording(parts / name, 1000)
    expect(run("compare", "--format=json", parts, old[0]).report["old_runs"] == 1, "parts of one recording")


def test_findings_of_one_side(folder):
    result = run("compare", recording(folder / "old", 1000), recording(folder / "new", 1000, "broken"))
    expect(result.out.startswith("Only in NEW: error queue-broken:") and result.status == 0, result.out)


def test_short_damaged_and_unreadable(folder):
    old = recording(folder / "old", 1000)
    short = build(folder / "short")
    expect(all(row["verdict"] in ("untested", "same") for row in rows(run("compare", "--format=json", short, old)).values()), "short")
    expect(run("compare", build(folder / "empty", ""), old).status == 0, "empty")
    damaged = recording(folder / "damaged", 1000)
    for stream in damaged.glob("*_0"):
        stream.write_bytes(stream.read_bytes()[:-7])
    expect(run("compare", damaged, old).status in (0, 2), "damaged")
    (folder / "notes.json").write_text("{}")
    (folder / "no.json").write_text("no")
    (folder / "report.json").write_text(run("analyze", "--format=json", old).out)
    for words, said in (((old,), "give OLD and NEW"), ((old, old, old), "give OLD and NEW"), ((old, "--"), "give OLD and NEW"),
                        ((old, folder / "none"), "No such file"), ((folder / "notes.json", old), "is no report of"),
                        ((folder / "no.json", old), "is no report in JSON"), ((folder / "report.json", old), "without series"),
                        (("--format=xml", old, old), "--format"), (("--what", old, old), "--what")):
        result = run("compare", *words)
        expect(result.status == 2 and said in result.err and result.out == "", f"{words}: {result.status} {result.err}")


main(dict(globals()))
