#!/usr/bin/env python3
"""Goal: the command line of `vblkscope analyze` does what its manual says, and its exit status is the contract's.

Method: healthy, faulty, empty and other programs' traces with each option, right and wrong. If it fails: a script that
relies on status, options or form of the report breaks.
"""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from analyze_tool import BROKEN_QUEUE, DEADLINE_S, HEALTHY, VBLKSCOPE, analyze, build, expect, main, run  # noqa: E402

OTHER_PROGRAM = """
!declare none
!event my_server:accept fd=i32 peer=string
!event my_server:reply fd=i32 bytes=u64
1 cpu0 my_server:accept fd=3 peer=somebody
2 cpu1 my_server:reply fd=3 bytes=100
"""


def usage(*args, reason):
    result = run("analyze", *args)
    expect(result.status == 2, f"{args}: status {result.status}")
    expect(reason in result.err and result.out == "", f"{args}: {result.err}")
    expect(len(result.err.splitlines()) == 1, f"{args}: one line: {result.err}")


def test_healthy(folder):
    result = analyze(build(folder / "t"))
    expect(result.status == 0 and result.report["findings"] == [], result.out)
    expect(result.report["schema"] == "vblkscope-report-1" and result.err == "", result.err)


def test_finding(folder):
    result = analyze(build(folder / "t", BROKEN_QUEUE))
    expect(result.status == 1 and result.ids() == ["queue-broken"], result.out)


def test_empty_and_other_traces_cannot_be_judged(folder):
    expect(analyze(build(folder / "empty", "")).status == 3, "no event")
    result = analyze(build(folder / "other", OTHER_PROGRAM))
    expect(result.status == 3 and result.report["trace"]["event_count"] == 2, result.out)
    expect(run("analyze", folder / "other").out.startswith("NOTHING TO JUDGE"), "said first")


def test_missing_sets_are_said_first(folder):
    events = "!declare rt_loop:work_run\n" + HEALTHY
    text = run("analyze", build(folder / "t", events))
    expect(text.out.startswith("NOTHING WAS CHECKED: every relevant set is missing"), text.out[:200])
    report = analyze(folder / "t").report
    expect(report["all_skipped"] is True and report["skipped"], "and in the JSON")


def test_formats_and_output(folder):
    build(folder / "t", BROKEN_QUEUE)
    text = run("analyze", folder / "t")
    expect(text.status == 1 and text.out.startswith("VERDICT: 1 error"), text.out)
    expect("error queue-broken" in text.out and "\033" not in text.out, text.out)
    expect("\nLoops\n" in run("analyze", "--verbose", folder / "t").out and "\nLoops\n" not in text.out, "tables on demand")
    to_file = run("analyze", "--format=json", f"--output={folder}/report.json", folder / "t")
    expect(to_file.status == 1 and to_file.out == "", to_file.out)
    expect(json.loads((folder / "report.json").read_text()) == analyze(folder / "t").report, "the same report")


def test_unwritable_output(folder):
    build(folder / "t")
    for path in (folder / "nowhere/report", "/dev/full", folder):
        result = run("analyze", "--output", path, folder / "t")
        expect(result.status == 1 and str(path) in result.err, f"{path}: {result.status} {result.err}")
    with open("/dev/full", "wb") as full:
        process = subprocess.run([VBLKSCOPE, "analyze", folder / "t"], stdout=full, stderr=subprocess.PIPE,
                                 timeout=DEADLINE_S)
        expect(process.returncode == 1 and b"standard output" in process.stderr, process.stderr)


def test_reader_that_goes_away_leaves_nothing_behind(folder):
    build(folder / "t", HEALTHY + "!cut cpu0 -10\n!packet cpu0 3.2\n!cut cpu0 -4000\n")
    scratch = folder / "scratch"
    scratch.mkdir()
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run([VBLKSCOPE, "analyze", folder / "t"], stdout=writing, stderr=subprocess.PIPE,
                             timeout=DEADLINE_S, env=dict(os.environ, TMPDIR=str(scratch)))
    os.close(writing)
    expect(process.returncode == 1 and b"Broken pipe" in process.stderr, (process.returncode, process.stderr))
    expect(list(scratch.iterdir()) == [], "the copy is gone")


def test_fail_on(folder):
    build(folder / "t", BROKEN_QUEUE)
    build(folder / "lossy", "!discard cpu1 2.5 2.6\n" + HEALTHY)
    for severity, broken, lossy in (("info", 1, 1), ("warning", 1, 0), ("error", 1, 0)):
        expect(analyze(f"--fail-on={severity}", folder / "t").status == broken, severity)
        expect(analyze(f"--fail-on={severity}", folder / "lossy").status == lossy, severity)


def test_suppress(folder):
    """Status, JSON and text follow from what is left; a report of which nothing is left sends nobody to the disk."""
    build(folder / "t", BROKEN_QUEUE)
    known, other = folder / "known", folder / "other"
    known.write_text("queue-broken device=di?k queue_index=1 # the guest's driver is being fixed\nloop-hog loop=main\n")
    other.write_text("queue-broken queue_index=0\n")
    result = analyze(f"--suppress={known}", folder / "t")
    expect(result.status == 0 and result.ids() == [] and result.report["suppressed"][0]["id"] == "queue-broken", result.out)
    expect([rule["line"] for rule in result.report["suppression_rules"]["unused"]] == [2], result.out)
    expect(analyze(f"--suppress={other}", folder / "t").status == 1, "another queue")
    expect(analyze(f"--suppress={other}", f"--suppress={known}", folder / "t").status == 0, "both files")
    expect("suppressed" not in analyze(folder / "t").report, "no rules were given")
    text = " ".join(run("analyze", f"--suppress={known}", folder / "t").out.split())
    expect(text.startswith("VERDICT: nothing new found. 1 known finding is not counted"), text)
    expect("matches # the guest's driver is being fixed" in text and f"{known}:2: loop-hog loop=main: matched nothing" in text,
           text)
    known.write_text("queue-broken until=2020-01-01\n")
    result = run("analyze", f"--suppress={known}", folder / "t")
    expect(result.status == 1 and "queue-broken until=2020-01-01: has expired" in result.out, result.out)


def test_checks(folder):
    build(folder / "t", BROKEN_QUEUE)
    expect(analyze("--checks=queue-broken,events-lost", folder / "t").ids() == ["queue-broken"], "chosen")
    result = analyze("--checks=events-lost", folder / "t")
    expect(result.status == 0 and result.ids() == [], "not chosen")


def test_usage(folder):
    build(folder / "t")
    usage(reason="no trace given")
    usage(folder / "t", "--format=xml", reason="--format: there is no format 'xml'")
    usage(folder / "t", "--fail-on=fatal", reason="--fail-on: there is no severity 'fatal'")
    usage(folder / "t", "--verbose", "--format=json", reason="--verbose: is for the text")
    usage(folder / "t", "--checks=stale", reason="--checks: there is no check 'stale'")
    usage(folder / "t", "--checks=", reason="--checks: names no check")
    usage(folder / "t", "--stuck-request=10", reason="--stuck-request: '10' is not a duration")
    usage(folder / "t", "--thrash=0.05", reason="is not a share")
    usage(folder / "t", "--sustained=-1", reason="is not a count")
    (folder / "known").write_text("stale-fd\nstale-fd lop=main\n")
    usage(folder / "t", f"--suppress={folder}/known", reason=f"{folder}/known:2: there is no key 'lop'")
    usage(folder / "t", f"--suppress={folder}/none", reason="No such file")
    usage(folder / "t", "--stall-timeout=0", reason="at least 1 second")
    usage(folder / "t", "--colour", reason="--colour")


def test_not_a_trace(folder):
    (folder / "notes").mkdir()
    (folder / "notes/notes.txt").write_text("hello\n")
    usage(folder / "notes", reason="no trace here")
    usage(folder / "notes/notes.txt", reason="not a folder")
    usage(folder / "nowhere", reason="No such file")


def terminal_output(folder, **environment):
    """What a terminal gets to see."""
    master, slave = pty.openpty()
    process = subprocess.Popen([VBLKSCOPE, "analyze", str(folder)], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                               env=dict(os.environ, **environment))
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
    except OSError:     # the terminal is gone with its last writer
        pass
    os.close(master)
    process.wait(DEADLINE_S)
    return seen.decode(errors="replace")


def test_colours_on_terminals_only(folder):
    build(folder / "t", BROKEN_QUEUE)
    os.environ.pop("NO_COLOR", None)
    expect("\033[1;31mVERDICT" in terminal_output(folder / "t"), "colours on a terminal")
    expect("\033[1;31m" not in terminal_output(folder / "t", NO_COLOR="1"), "not with NO_COLOR")


main(dict(globals()))
