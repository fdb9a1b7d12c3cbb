#!/usr/bin/env python3
"""Goal: babeltrace2 finds `sink.vblk.report` and `flt.vblk.findings`, and they say what the program says about the same trace.

Method: the plugin from the build folder in babeltrace2's own graphs, with its parameters, right and wrong. What passes the
filter is printed and compared with what is printed without it. If it fails: the analyses do not compose with other components.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from analyze_tool import BROKEN_QUEUE, DEADLINE_S, HEALTHY, analyze, build, expect, main  # noqa: E402

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
    expect("'filter.vblk.findings': Add an event for each thing that is wrong in a recording of vblkd." in process.stdout,
           process.stdout)
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


# The mappings grow from a warning to an error.
GROWING = HEALTHY + "".join(
    f"{second} cpu1 vtid=19 rt_process:vma_sample vma_count={stacks * 2 + 200} max_map_count=10000 stack_count={stacks} "
    f"stack_vma_count={stacks * 2} live_count={stacks}\n"
    for second, stacks in ((10, 4000), (11, 4000), (12, 4000), (13, 4500), (14, 4500)))
STRING = r'"(?:[^"\\]|\\.)*"'
FIELD = re.compile(rf"(\w+) = (?:({STRING})|(-?\d+)|\[((?: \[\d+\] = {STRING},?)*) \])")
LINE = re.compile(rf"\[\d+\] = ({STRING})")


def printed(*args):
    process = babeltrace(*args, "-c", "sink.text.pretty", "-p", "no-delta=true,clock-seconds=true")
    expect(process.returncode == 0, process.stderr)
    return process.stdout.splitlines()


def unescape(text):
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def read_finding(line):
    """The fields of a finding that was printed."""
    text = line[line.index("{ ") + 2:]
    fields = {}
    for name, string, number, lines in FIELD.findall(text):
        if name.startswith("__"):
            continue  # the length of an array, which a trace file has as a field of its own
        if string:
            fields[name] = unescape(string)
        else:
            fields[name] = int(number) if number else [unescape(entry) for entry in LINE.findall(lines)]
    return fields


def findings_of(lines):
    return [read_finding(line) for line in lines if "vblk:finding:" in line]


def events_of(lines):
    return [line for line in lines if "vblk:finding:" not in line]


def evidence_line(entry):
    return f"{entry['time_ns'] // 10**9}.{entry['time_ns'] % 10**9:09} {entry['event']}: {entry['text']}"


def test_filter_adds_the_findings_at_the_end(folder):
    build(folder / "t", BROKEN_QUEUE + GROWING + "!discard cpu0 2.5 2.6\n")
    own = analyze(folder / "t").report["findings"]
    without, lines = printed(folder / "t"), printed(folder / "t", "-c", "flt.vblk.findings")
    expect(len(own) >= 3, f"the trace was to have several findings: {own}")
    expect(events_of(lines) == without == lines[:-len(own)], "every event passes unchanged, findings come last")
    found = findings_of(lines)
    for key in ("id", "severity", "summary", "begin_ns", "end_ns", "count", "advice"):
        expect([f[key] for f in found] == [f[key] for f in own], f"{key}: {found}")
    expect([f["cause"] for f in found] == [f["cause"] or "" for f in own], "cause")
    expect([json.loads(f["subject"]) for f in found] == [f["subject"] for f in own], "subject")
    expect([f["evidence"] for f in found] == [list(map(evidence_line, f["evidence"])) for f in own], "evidence")


def test_filter_is_silent_where_nothing_is_wrong(folder):
    build(folder / "t")
    expect(printed(folder / "t", "-c", "flt.vblk.findings") == printed(folder / "t"), "nothing is added")


def test_filter_takes_foreign_traces(folder):
    build(folder / "t", "!declare none\n!event other:thing number=u32\n1 cpu0 vtid=1 other:thing number=3\n")
    lines = printed(folder / "t", "-c", "flt.vblk.findings")
    expect(len(lines) == 1 and lines == printed(folder / "t"), f"{lines}")


def test_filter_takes_parameters(folder):
    build(folder / "t", BROKEN_QUEUE)
    lines = printed(folder / "t", "-c", "flt.vblk.findings", "-p", 'checks="events-lost",stuck-request="3s"')
    expect(lines == printed(folder / "t"), "the other check was not asked for")
    for parameter, reason in (('format="json"', "no limit 'format'"), ('checks="stale"', "no check 'stale'"),
                              ('stuck-request="3"', "not a duration"), ("preview-interval-ns=[]", "neither text nor a number"),
                              ("preview-interval-ns=-1", "not a time"), ('preview-interval-ns="1s"', "not a time")):
        process = babeltrace(folder / "t", "-c", "flt.vblk.findings", "-p", parameter)
        expect(process.returncode == 1 and reason in " ".join(process.stderr.split()), f"{parameter}: {process.stderr}")


def test_previews_tell_each_finding_once_and_when_it_becomes_worse(folder):
    build(folder / "t", BROKEN_QUEUE + GROWING)
    lines = printed(folder / "t", "-c", "flt.vblk.findings", "-p", "preview-interval-ns=500000000")
    expect(events_of(lines) == printed(folder / "t"), "every event passes unchanged")
    times = [float(line[1:line.index("]")]) for line in lines]
    expect(times == sorted(times), f"time never goes back: {times}")
    seen = [(f["id"], f["severity"], round(time - 1.7e9)) for f, time in
            zip(findings_of(lines), [time for time, line in zip(times, lines) if "vblk:finding:" in line])]
    expect(seen == [("queue-broken", "error", 4), ("vma-pressure", "warning", 10), ("vma-pressure", "error", 13)], f"{seen}")


def test_filter_before_a_writer_of_traces(folder):
    build(folder / "t", BROKEN_QUEUE)
    process = babeltrace(folder / "t", "-c", "flt.vblk.findings", "-c", "sink.ctf.fs", "-p",
                         f'path="{folder}/judged",quiet=true')
    expect(process.returncode == 0, process.stderr)
    lines, direct = printed(folder / "judged"), printed(folder / "t", "-c", "flt.vblk.findings")
    expect(len(lines) == len(direct) and len(findings_of(lines)) == 1, f"{lines}")
    expect(findings_of(lines) == findings_of(direct), f"{lines}")


def graph(folder, *filters, source=""):
    """What sink.text.pretty prints behind the filters NAME or NAME:PARAMETERS, in this order; parameters of the source."""
    parts = ["--component=A:source.ctf.fs", f'--params=inputs=["{folder}"]{source}', "--component=B:filter.utils.muxer"]
    names = ["A", "B"]
    for index, text in enumerate(filters):
        name, _, parameters = text.partition(":")
        names.append(f"F{index}")
        parts += [f"--component=F{index}:{name}"] + ([f"--params={parameters}"] if parameters else [])
    parts += ["--component=P:sink.text.pretty", "--params=no-delta=true,clock-seconds=true"]
    names.append("P")
    process = babeltrace("run", *parts, *(f"--connect={a}:{b}" for a, b in zip(names, names[1:])))
    expect(process.returncode == 0, process.stderr)
    return process.stdout.splitlines()


def test_filter_before_and_behind_others(folder):
    build(folder / "t", BROKEN_QUEUE)
    judged = graph(folder / "t", "filter.vblk.findings")
    expect(len(findings_of(judged)) == 1, f"{judged}")
    # a trimmer seeks: it begins a new pass
    trimmed = graph(folder / "t", "filter.vblk.findings", 'filter.utils.trimmer:begin="1700000003"')
    expect(trimmed == [line for line in judged if float(line[1:line.index("]")]) >= 1700000003], f"{trimmed}")
    expect(graph(folder / "t", "filter.vblk.findings", "filter.utils.muxer") == judged, "merged once more")
    before = graph(folder / "t", 'filter.utils.trimmer:end="1700000003.2"', "filter.vblk.findings")
    expect(findings_of(before) == [] and len(before) > 0, "the broken queue was trimmed away")


def test_filter_takes_times_before_the_clocks_origin(folder):
    build(folder / "t", BROKEN_QUEUE)
    earlier = ",clock-class-offset-s=-1700000010"
    lines = graph(folder / "t", "filter.vblk.findings", "filter.utils.muxer", source=earlier)
    expect([f["id"] for f in findings_of(lines)] == ["queue-broken"], f"{lines}")
    expect(events_of(lines) == graph(folder / "t", source=earlier), f"{lines}")
    expect(lines[-1].startswith("[-6.000000000]") and "-6.000000000 vblk_queue:broken" in lines[-1], f"{lines[-2:]}")


main(dict(globals()))
