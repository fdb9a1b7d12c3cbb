#!/usr/bin/env python3
"""Counts the results of one or more `meson test` runs and says what did not pass.

Usage: count.py [--strict] [--phases=FILE] [--broken=BUILD]... LOG.json...
  LOG.json        written by meson test --logbase; a missing or empty one is a failure: nothing was tested
  --strict        a skipped test is a failure
  --phases=FILE   lines "SECONDS NAME": the time that each phase took, which is shown with the slowest tests
  --broken=BUILD  a build that could not be made: a failure

The last line is "N passed, N failed", with ", N skipped" when there were any. Exit status 1 when something failed.
"""

import argparse
import json
import sys

# Results of meson that are as they should be. EXPECTEDFAIL: a test that is declared to fail, and does.
PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
SLOWEST_SHOWN = 10


def reason(test):
    """The last thing a test said, which for a skipped one is why."""
    lines = [line for key in ("stdout", "stderr") for line in (test.get(key) or "").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def read_results(path):
    try:
        with open(path) as log:
            return [json.loads(line) for line in log if line.strip()]
    except FileNotFoundError:
        return []


def show_times(phases_path, timed):
    """Where the time went, so that what makes the run longer is seen when it comes."""
    with open(phases_path) as phases:
        taken = [line.strip().split(" ", 1) for line in phases if line.strip()]
    print(f"{sum(int(seconds) for seconds, _ in taken)} s: " + ", ".join(f"{name} {seconds} s" for seconds, name in taken))
    for seconds, build, name in sorted(timed, reverse=True)[:SLOWEST_SHOWN]:
        print(f"slow     {build}: {name}: {seconds:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--broken", action="append", default=[], metavar="BUILD")
    parser.add_argument("--phases", metavar="FILE")
    parser.add_argument("logs", nargs="*", metavar="LOG.json")
    options = parser.parse_args()

    passed, failed, skipped = 0, len(options.broken), 0
    timed = []
    for build in options.broken:
        print(f"FAILED   {build}: does not build")
    for path in options.logs:
        build = path.split("/")[0]
        tests = read_results(path)
        if not tests:
            failed += 1
            print(f"FAILED   {build}: no test ran ({path})")
        timed += [(test["duration"], build, test["name"]) for test in tests]
        for test in tests:
            if test["result"] in PASSED:
                passed += 1
            elif test["result"] in SKIPPED and not options.strict:
                skipped += 1
                print(f"skipped  {build}: {test['name']}: {reason(test)}")
            else:
                failed += 1
                print(f"FAILED   {build}: {test['name']}: {test['result']}: {reason(test)}")
    if options.phases:
        show_times(options.phases, timed)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    # A run that tested nothing has shown nothing.
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
