#!/usr/bin/env python3
"""Goal: babeltrace2 finds `sink.vblk.report`, and it says what the program says about the same trace.

Method: the plugin from the build folder in babeltrace2's own graphs, with its parameters, right and wrong. If it fails:
the analyses do not compose with other components.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from analyze_tool import BROKEN_QUEUE, DEADLINE_S, analyze, build, expect, main  # noqa: E402

PLUGINS = os.environ["VBLK_PLUGINS"]
# Of a plugin that is built with a sanitizer; babeltrace2 is not, and what it leaks is not ours.
ENVIRONMENT = dict(os.environ, LD_PRELOAD=os.environ.get("SANITIZER_RUNTIME", ""), ASAN_OPTIONS="detect_leaks=0")


def babeltrace(*args):
    return subprocess.run(["babeltrace2", f"--plugin-path={PLUGINS}", *map(str, args)], stdin=subprocess.DEVNULL,
                          env=ENVIRONMENT, capture_output=True, text=True, timeout=DEADLINE_S)


def report(*args):
    process = babeltrace(*args)
    expect(process.returncode == 0, process.stderr)
    return json.loads(process.stdout)


def test_is_listed(folder):
    process = babeltrace("list-plugins")
    expect("'sink.vblk.report': Say what is wrong in a recording of vblkd." in process.stdout, process.stdout)


def test_says_what_the_program_says(folder):
    build(folder / "t", BROKEN_QUEUE + "!discard cpu0 2.5 2.6\n")
    own = analyze(folder / "t").report
    plugin = report(folder / "t", "-c", "sink.vblk.report", "-p", 'format="json"')
    expect(plugin == own, "the same report")


def test_text_is_the_default_and_goes_to_a_file(folder):
    build(folder / "t", BROKEN_QUEUE)
    process = babeltrace(folder / "t", "-c", "sink.vblk.report", "-p", f'output="{folder}/report.txt"')
    expect(process.returncode == 0 and process.stdout == "", process.stderr)
    expect((folder / "report.txt").read_text().startswith("VERDICT: 1 error"), "text")


def test_page_has_its_plots(folder):
    build(folder / "t", BROKEN_QUEUE)
    process = babeltrace(folder / "t", "-c", "sink.vblk.report", "-p", f'format="html",output="{folder}/report.html"')
    expect(process.returncode == 0, process.stderr)
    data = (folder / "report.html").read_text().split('id="report">', 1)[1].split("</script", 1)[0]
    expect(json.loads(data)["series"]["steps"] > 0, "plots need the series")


def test_parameters(folder):
    build(folder / "t", BROKEN_QUEUE)
    chosen = report(folder / "t", "-c", "sink.vblk.report", "-p",
                    'format="json",checks="events-lost",stuck-request="3s",sustained=4')
    expect(chosen["findings"] == [], "the other check was not asked for")


def test_wrong_parameters_are_refused(folder):
    build(folder / "t")
    for parameter, reason in (('format="xml"', "no format 'xml'"), ('checks="stale"', "no check 'stale'"),
                              ('stuck-request="3"', "not a duration"), ("speed=3", "no limit 'speed'"),
                              ("output=[]", "neither text nor a number")):
        process = babeltrace(folder / "t", "-c", "sink.vblk.report", "-p", parameter)
        expect(process.returncode == 1 and reason in " ".join(process.stderr.split()), f"{parameter}: {process.stderr}")


def test_unwritable_output_fails_the_graph(folder):
    build(folder / "t")
    process = babeltrace(folder / "t", "-c", "sink.vblk.report", "-p", 'output="/nonexistent-folder/report"')
    expect(process.returncode == 1 and "/nonexistent-folder/report" in process.stderr, process.stderr)


def test_behind_a_filter(folder):
    build(folder / "t", BROKEN_QUEUE)
    trimmed = report(folder / "t", "--begin=1700000000", "--end=1700000003.2", "-c", "sink.vblk.report", "-p",
                     'format="json"')
    expect(trimmed["findings"] == [] and trimmed["trace"]["event_count"] == 4, "the broken queue was trimmed away")


main(dict(globals()))
