#!/usr/bin/env python3
"""Goal: Trace Compass, or another consumer of LAMI 1.0, can run the analyses and understands every cell of the results.

Method: a strict consumer, written from the specification: the four phases with their arguments, the shapes of metadata, results, error
objects and progress lines, each cell against the class of its column, no key that the specification does not have. It is run over healthy,
faulty, damaged, empty and other programs' traces. If it fails: the consumer shows nothing, or nonsense.
"""

import json
import re
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from analyze_tool import BROKEN_QUEUE, analyze, build, expect, main, run  # noqa: E402

RICH = BROKEN_QUEUE + """
5.5 cpu0 vtid=7 rt_pool:local_sample thread_id=7 local_size=1 takes=5 gives=4 misses=1 name=main
5.6 cpu0 vtid=7 rt_loop:sample loop_id=1 passes=10 busy_ns=5
5.7 cpu0 vtid=7 rt_lock:create lock_id=1 class_name=requests kind=1
5.8 cpu0 vtid=7 rt_lock:sample lock_id=1 acquisitions=5
5.9 cpu0 vtid=7 rt_lock:sample lock_id=1 acquisitions=9 contentions=2 wait_ns=100
6 cpu0 vtid=7 vblk_request:begin request_id=1 device_id=1 queue_index=1 loop_id=1
6.1 cpu0 vtid=7 vblk_request:submit request_id=1
6.2 cpu0 vtid=7 vblk_request:complete request_id=1
6.3 cpu0 vtid=7 vblk_request:end request_id=1
7 cpu0 vtid=7 rt_loop:sample loop_id=1 passes=20 busy_ns=9 wait_ns=6
7.1 cpu0 vtid=7 rt_loop:create loop_id=2 name=absurd thread_id=8
7.2 cpu0 vtid=7 rt_loop:sample loop_id=2
7.3 cpu0 vtid=7 rt_loop:sample loop_id=2 busy_ns=9000000000000000000 wait_ns=9000000000000000000
"""
NUMBERS = {"number", "ratio", "timestamp", "duration", "size", "bitrate"}
NAMED = {"syscall": "name", "path": "path", "disk": "name", "part": "name", "netif": "name", "string": "value"}
COLUMN_CLASSES = NUMBERS | set(NAMED) | {"bool", "time-range", "process", "fd", "irq", "cpu", "mixed"}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def keys(thing, required, optional=()):
    expect(isinstance(thing, dict), f"{thing} is no object")
    expect(set(required) <= set(thing) <= set(required) | set(optional), f"keys of {thing}")


def check_cell(cell, wanted):
    """A data object of the column's class; unknown and empty are allowed anywhere."""
    if cell is None or cell == {"class": "unknown"}:
        return
    expect(isinstance(cell, dict) and wanted in ("mixed", cell.get("class")), f"{cell} in a column of {wanted}")
    kind = cell["class"]
    if kind in NUMBERS:
        keys(cell, ["class", "value"], ["low", "high"])
        expect(is_number(cell["value"]), cell)
        expect(kind != "ratio" or 0 <= cell["value"] <= 1, cell)
        expect(kind not in ("duration", "size") or cell["value"] >= 0, cell)
    elif kind in NAMED:
        keys(cell, ["class", NAMED[kind]])
        expect(isinstance(cell[NAMED[kind]], str), cell)
    elif kind == "time-range":
        keys(cell, ["class", "begin", "end"])
        check_cell(cell["begin"], "timestamp")
        check_cell(cell["end"], "timestamp")
        expect(cell["begin"]["value"] <= cell["end"]["value"], cell)
    elif kind == "process":
        keys(cell, ["class"], ["name", "pid", "tid"])
        expect(isinstance(cell.get("name", ""), str), cell)
        expect(all(isinstance(cell.get(key, 0), int) for key in ("pid", "tid")), cell)
    else:
        raise AssertionError(f"{cell} has a class that is not ours")


def check_version(version):
    keys(version, ["major", "minor"], ["patch", "extra"])
    expect(all(isinstance(version.get(key, 0), int) for key in ("major", "minor", "patch")), version)


def check_metadata(metadata):
    keys(metadata, ["mi-version", "table-classes"], ["version", "title", "authors", "description", "url", "tags"])
    expect(metadata["mi-version"] == {"major": 1, "minor": 0}, metadata["mi-version"])
    check_version(metadata["version"])
    expect(all(isinstance(text, str) for text in metadata["authors"] + metadata["tags"] + [metadata["title"]]), metadata)
    expect(metadata["table-classes"], "at least one table class")
    for table in metadata["table-classes"].values():
        keys(table, ["title", "column-descriptions"], ["inherit"])
        for column in table["column-descriptions"]:
            keys(column, ["title", "class"], ["unit"])
            expect(column["class"] in COLUMN_CLASSES, column)
            expect("unit" not in column or column["class"] == "number", column)


def check_results(results, metadata):
    """The tables by name."""
    keys(results, ["results"])
    tables = {}
    for table in results["results"]:
        keys(table, ["time-range", "class", "data"])
        check_cell(table["time-range"], "time-range")
        columns = metadata["table-classes"][table["class"]]["column-descriptions"]
        for row in table["data"]:
            expect(len(row) == len(columns), f"{row} has not {len(columns)} cells")
            for cell, column in zip(row, columns):
                check_cell(cell, column["class"])
        tables[table["class"]] = table
    return tables


def check_error(text):
    error = json.loads(text)
    keys(error, ["error-message"], ["error-code"])
    expect(isinstance(error["error-message"], str) and error["error-message"], error)
    return error["error-message"]


def get_metadata():
    result = run("lami", "--metadata")
    expect(result.status == 0 and result.err == "", result.err)
    metadata = json.loads(result.out)
    check_metadata(metadata)
    return metadata


def results_of(*args):
    result = run("lami", *args)
    expect(result.status == 0 and result.err == "", f"{result.status} {result.err} {result.out}")
    return check_results(json.loads(result.out), get_metadata())


def test_version_and_metadata(_):
    for words in (["lami"], ["analyze", "--format=lami"], ["analyze", "--format", "lami"], ["analyze", "-f", "lami"]):
        result = run(*words, "--mi-version")
        expect(result.status == 0 and result.out == "1.0\n", result.out)
    get_metadata()


def test_results_say_what_the_report_says(folder):
    tables = results_of(build(folder / "t", RICH))
    report = analyze(folder / "t").report
    expect([row[1]["value"] for row in tables["findings"]["data"]] == [f["id"] for f in report["findings"]], tables["findings"])
    expect({"findings", "latency", "queues", "loops", "locks", "pool"} <= set(tables), set(tables))
    expect(tables["loops"]["data"][0][2] == {"class": "ratio", "value": 0.4}, tables["loops"])
    expect(tables["findings"]["data"][0][4]["begin"]["value"] == report["findings"][0]["begin_ns"], "in nanoseconds, exactly")
    expect(run("analyze", "--format=lami", folder / "t").out == run("lami", folder / "t").out, "the same by both names")


def test_healthy_empty_damaged_and_missing_sets(folder):
    expect(results_of(build(folder / "healthy"))["findings"]["data"] == [], "no findings, and status 0")
    results_of(build(folder / "empty", ""))
    results_of(build(folder / "cut", RICH + "!cut cpu0 -10\n"))
    expect("skipped" in results_of(build(folder / "core", "!declare rt_process:info rt_loop:create\n" + "1 cpu0 rt_loop:create loop_id=1\n")),
           "what was not checked is told")


def test_range_and_limit(folder):
    events = RICH + '8 cpu1 vtid=8 vblk_queue:broken device_id=1 queue_index=0 error=-71 reason="again"\n'
    build(folder / "t", events)
    begins = [row[4]["begin"]["value"] for row in results_of(folder / "t")["findings"]["data"]]
    expect(len(begins) == 2 and len(results_of("--limit=1", folder / "t")["findings"]["data"]) == 1, begins)
    expect(len(results_of("--limit=unlimited", folder / "t")["findings"]["data"]) == 2, "unlimited")
    later = results_of(f"--begin={begins[0] + 1}", f"--end={begins[1]}", folder / "t")["findings"]
    expect([row[4]["begin"]["value"] for row in later["data"]] == begins[1:], later)
    expect(later["time-range"]["begin"]["value"] == begins[0] + 1, later["time-range"])


def test_progress_comes_before_the_object(folder):
    result = run("lami", "--output-progress", build(folder / "t", RICH))
    *lines, last = result.out.splitlines()
    check_results(json.loads(last), get_metadata())
    for line in lines:
        expect(re.fullmatch(r"(\*|0(\.\d+)?|1(\.0+)?)( .*)?", line), line)
    expect(len({line.startswith("*") for line in lines}) <= 1, lines)


def test_compatibility(folder):
    ours, other = build(folder / "ours"), build(folder / "other", "!declare none\n!event my:event fd=i32\n1 cpu0 my:event fd=3\n")
    result = run("lami", "--test-compatibility", ours)
    expect(result.status == 0 and result.out == "", result.out)
    result = run("lami", "--test-compatibility", other)
    expect(result.status != 0 and "not a recording of vblkd" in check_error(result.out), result.out)
    result = run("lami", "--test-compatibility", folder)
    expect(result.status == 0, "one of several")
    expect(run("lami", "--test-compatibility", folder / "none").status != 0, "nowhere")
    with tarfile.open(Path(__file__).resolve().parents[1] / "dialects" / "healthy.tar.xz") as archive:
        archive.extractall(folder / "qemu")
    expect(run("lami", "--test-compatibility", folder / "qemu").status == 0, "QEMU's events are judged, too")


def test_errors_are_objects(folder):
    for words, said in (([folder / "none"], "No such file"), ([], "no trace given"), (["--limit=0", folder], "--limit"),
                        (["--begin=soon", folder], "--begin"), (["--begin=2", "--end=1", folder], "lies after"),
                        (["--what"], "--what"), (["--stuck-request=3", folder], "not a duration")):
        result = run("lami", *words)
        expect(result.status == 2 and said in check_error(result.out), f"{words}: {result.status} {result.out}")


main(dict(globals()))
