#!/usr/bin/env python3
"""Goal: the published JSON Schema describes the reports: what a report holds is right by it, what is not a report is refused, and
what a later version may add is let through.

Method: the schema against the meta-schema of its draft; a report with a finding, suppressed ones and series; the same without each
required key, with each value of another type, and with unknown keys everywhere. The reports of all recorded cases are validated where
they are made (cases/integration_cases.py). If it fails: who checks reports by the schema refuses good ones or accepts nonsense.
"""

import copy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from analyze_tool import BROKEN_QUEUE, analyze, build, expect, main  # noqa: E402
from report.schema import SCHEMA, breaches, jsonschema  # noqa: E402

EVENTS = BROKEN_QUEUE + """
!discard cpu1 2.5 2.6
5 cpu1 vtid=8 vblk_queue:broken device_id=1 queue_index=0 error=-71 reason="descriptor outside memory"
5.5 cpu0 vtid=7 rt_pool:local_sample thread_id=7 local_size=1 takes=5 gives=4 misses=1 name=main
5.6 cpu0 vtid=7 rt_loop:sample loop_id=1 passes=10 busy_ns=5
5.7 cpu0 vtid=7 rt_lock:create lock_id=1 class_name=requests kind=1
6 cpu0 vtid=7 vblk_request:begin request_id=1 device_id=1 queue_index=1 loop_id=1
6.1 cpu0 vtid=7 vblk_request:submit request_id=1
6.2 cpu0 vtid=7 vblk_request:complete request_id=1
6.3 cpu0 vtid=7 vblk_request:end request_id=1
7 cpu0 vtid=7 rt_loop:sample loop_id=1 passes=20 busy_ns=9
"""


def whole_report(folder):
    (folder / "known").write_text("queue-broken queue_index=0 # known\nloop-hog\nstale-fd until=2020-01-01\n")
    return analyze(f"--suppress={folder}/known", build(folder / "t", EVENTS)).report


def required(schema, report, path=()):
    """(path of an object, key) for each key that the schema demands of what is there."""
    schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    for part in schema.get("allOf", ()):
        yield from required(part, report, path)
    if isinstance(report, dict):
        for key in schema.get("required", ()):
            yield path, key
        for key, inner in schema.get("properties", {}).items():
            if key in report:
                yield from required(inner, report[key], path + (key,))
    elif isinstance(report, list) and report and "items" in schema:
        yield from required(schema["items"], report[0], path + (0,))


def at(report, path):
    for key in path:
        report = report[key]
    return report


def test_schema_is_one(_):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_reports_are_right(folder):
    report = whole_report(folder)
    expect(not list(breaches(report)), list(breaches(report)))
    expect(report["suppressed"] and report["findings"] and report["latency"]["stages"], "the report has something of all")
    expect(not list(breaches(analyze(build(folder / "empty", "")).report)), "an empty trace")


def test_what_is_missing_or_wrong_is_seen(folder):
    report = whole_report(folder)
    demanded = list(required(SCHEMA, report))
    expect(len(demanded) > 100, f"only {len(demanded)} keys are demanded")
    for path, key in demanded:
        less, other = copy.deepcopy(report), copy.deepcopy(report)
        del at(less, path)[key]
        at(other, path)[key] = {"no": "such"} if not isinstance(at(report, path)[key], dict) else 5
        expect(list(breaches(less)), f"{path} without {key} passes")
        expect(list(breaches(other)), f"{path} with another {key} passes")
    for key, value in (("severity", "fatal"), ("count", -1), ("begin_ns", "yesterday")):
        wrong = copy.deepcopy(report)
        wrong["findings"][0][key] = value
        expect(list(breaches(wrong)), f"{key}={value} passes")


def test_new_keys_pass(folder):
    report = whole_report(folder)

    def extend(value):
        if isinstance(value, dict):
            for inner in list(value.values()):
                extend(inner)
            value["later"] = {"anything": [1, "x", None]}
        elif isinstance(value, list):
            for inner in value:
                extend(inner)

    extend(report)
    report["findings"][0]["id"] = "a-later-finding"
    expect(not list(breaches(report)), list(breaches(report))[:3])


main(dict(globals()))
