#!/usr/bin/env python3
"""Goal: on recordings with a known truth, every fault is found, as what it is, and what merely looks alike is silent.

Method: small synthetic traces (cases.tar.xz), one story each; expected.json says what a report must and must not hold:

    status          allowed exit statuses
    must            findings that have to be there: id, severity, part of the subject, cause, cause_not, count_total
                    (range of the counts of all that match)
    must_not        ids that would be false alarms
    no_others       ids of which every finding must be a wanted one
    inconclusive    ids that must be listed as such; either: found or inconclusive, but not silent
    skipped         ids that must be listed as not checked (as far as such a check exists)

Every report also has to be right by the published schema.

A name says what it is: s a scenario, twin its healthy look-alike, s06 damaged recordings, h healthy, x one finding, e not
our traces. If it fails: the verdict is wrong, which costs the user weeks or trust.

Usage: integration_cases.py [CASE...]
"""

import concurrent.futures
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import verdicts  # noqa: E402
from analyze_tool import analyze, run  # noqa: E402
from report.schema import breaches  # noqa: E402


def existing_checks():
    """The program lists them when it is asked for one that it does not have."""
    listed = run("analyze", "--checks=?", "/").err
    return {word.strip() for word in listed.partition("(there are: ")[2].partition(")")[0].split(",")}


def matches(finding, wanted):
    subject = finding["subject"]
    return (finding["id"] == wanted["id"] and finding["severity"] == wanted["severity"]
            and all(subject.get(key) == value for key, value in wanted.get("subject", {}).items())
            and finding.get("cause") == wanted.get("cause", finding.get("cause"))
            and ("cause_not" not in wanted or finding.get("cause") != wanted["cause_not"]))


def judge(expected, result, checks):
    """What is wrong with a result, one string each."""
    if result.status not in expected["status"]:
        yield f"status {result.status}"
    if result.status == 2:
        return
    report = result.report
    yield from breaches(report)
    findings = report["findings"]
    unsure = {entry["id"] for entry in report["inconclusive"]}
    found = {finding["id"] for finding in findings}
    alarms = [f for f in findings if f["severity"] in ("error", "warning")]
    nothing_to_judge = report["trace"]["known_event_count"] == 0
    if result.status != (1 if alarms else 3 if unsure or nothing_to_judge else 0):
        yield f"status {result.status} does not follow from the report"
    for wanted in expected.get("must", ()):
        matching = [f for f in findings if matches(f, wanted)]
        if not matching:
            yield f"missing {wanted}; there is {[f for f in findings if f['id'] == wanted['id']]}"
        elif "count_total" in wanted:
            total, (low, high) = sum(f["count"] for f in matching), wanted["count_total"]
            if not low <= total <= high:
                yield f"{wanted['id']} counts {total}, not {low} to {high}"
    for finding in findings:
        if finding["id"] in expected["must_not"]:
            yield f"false alarm: {finding['id']}: {finding['summary']}"
        if (finding["id"] in expected.get("no_others", ())
                and not any(matches(finding, wanted) for wanted in expected.get("must", ()))):
            yield f"another {finding['id']}: {finding['subject']}"
    for id in expected.get("inconclusive", ()):
        if id not in unsure:
            yield f"{id} is not inconclusive"
    for id in expected.get("either", ()):
        if id not in unsure | found:
            yield f"silent about {id}"
    for id in expected.get("skipped", ()):
        if id in checks and id not in {entry["id"] for entry in report["skipped"]}:
            yield f"{id} is not skipped"


def row(name, expected, result):
    """For the table of verdicts."""
    found = [] if result.status == 2 else [f["id"] for f in result.report["findings"] if f["severity"] != "info"]
    wanted = [entry["id"] for entry in expected.get("must", ())]
    return verdicts.row(name, wanted, [id for id in found if id in wanted or id not in expected.get("may", ())])


def main():
    expected = json.loads((HERE / "expected.json").read_text())
    names = sys.argv[1:] or list(expected)
    checks = existing_checks()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="vblkscope-cases-") as folder:
        with tarfile.open(HERE / "cases.tar.xz") as archive:
            archive.extractall(folder)

        def one(name):
            result = analyze(os.path.join(folder, name))
            return list(judge(expected[name], result, checks)), row(name, expected[name], result)

        rows = []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, (wrong, its_row) in zip(names, pool.map(one, names)):
                print(f"FAIL {name}: {'; '.join(wrong)}" if wrong else f"ok   {name}", flush=True)
                failed += bool(wrong)
                rows.append(its_row)
    if names == list(expected):
        print(verdicts.tell("cases", rows))
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
