#!/usr/bin/env python3
"""Goal: what each tracepoint of the catalogue costs, when nobody records and when somebody does.

Method: a program hits each tracepoint in a loop of its own, right after an empty loop, and gives processor time a round. Two
such programs, one that never loads the provider and one that does; in turn: both with nobody recording, then the second one while
the core set, then while everything is recorded. The cost of a site is its loop less the empty one of the same moment.

Usage: bench_tracing.py [--json[=FILE]] [--markdown[=FILE]] [--quick]
Programs: $TRACING_SITES, $VBLKSCOPE, $BENCH_COMPARE
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from compare import FIGURE, LOWER, OF_NEW, Bench
from recording import Recording

ABOUT = ("What each tracepoint of the catalogue costs: a loop that does nothing but hit it, less an empty loop right before; "
         "processor time, states in turn.")
NOT_LOADED, IDLE, CORE, EVERYTHING = STATES = "not loaded", "nobody records", "core recorded", "everything recorded"
BUFFERS = "--buffer-size=16M"
FILTERED = " (filtered out)"  # as tracing_calls.py names them


class Site:
    def __init__(self, sets, fields, strings):
        self.sets, self.fields, self.strings = sets, fields, strings
        self.costs = {state: [] for state in STATES}

    def cost(self, state):
        return statistics.median(self.costs[state])


class Program:
    def __init__(self, loading):
        self.process = subprocess.Popen([os.environ["TRACING_SITES"], loading], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", "tracing_sites does not start"

    def measure(self, sites, state, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        while (line := self.process.stdout.readline()) != "\n":
            assert line, "tracing_sites ended"
            name, sets, fields, strings, ns, empty_ns = line.rstrip("\n").split("\t")
            site = sites.setdefault(name, Site(sets.split(","), int(fields), int(strings)))
            site.costs[state].append(float(ns) - float(empty_ns))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def measure(directory, rounds, idle_count, recorded_count):
    """({name: Site}, events lost)"""
    sites, lost = {}, 0
    with Program("no-load") as unloaded, Program("load") as loaded:
        for number in range(rounds):
            for state in STATES if number % 2 == 0 else STATES[::-1]:
                if state in (NOT_LOADED, IDLE):
                    (unloaded if state == NOT_LOADED else loaded).measure(sites, state, idle_count)
                    continue
                recording = Recording(directory, loaded.process.pid, "core" if state == CORE else "all", BUFFERS)
                try:
                    loaded.measure({}, state, recorded_count)  # touches the buffers' memory for the first time
                    loaded.measure(sites, state, recorded_count)
                    recording.stop()
                    lost += recording.bytes()[1]
                finally:
                    recording.remove()
    return sites, lost


def fill(row, sites, state):
    """A round's figure is the median over the sites."""
    for costs in zip(*(site.costs[state] for site in sites)):
        row.value(statistics.median(costs))


def of_unrecorded(bench, sites):
    group = bench.group("A site that nobody records", None, "more than an empty loop", FIGURE)
    for state, meaning in ((NOT_LOADED, "provider not loaded"), (IDLE, "loaded, nobody records")):
        name, dearest = max(sites.items(), key=lambda item: item[1].cost(state))
        for text, chosen in ((f"the middle one of {len(sites)}", sites.values()), (f"the dearest, {name}", [dearest])):
            row = group.row(f"{meaning}: {text}", "ns", LOWER)
            fill(row, chosen, state)
            row.target(OF_NEW, 1)
    group.note("Where a site is passed by, its arguments are not worked out.")


def of_recorded(bench, sites, lost):
    group = bench.group("A recorded event, by its fields", None, "more than an empty loop", FIGURE)
    for low, high in ((1, 2), (3, 4), (5, 6), (7, 9), (10, 99)):
        chosen = [site for name, site in sites.items() if low <= site.fields <= high and site.strings == 0]
        if chosen:
            fill(group.row(f"{low} to {high} numbers" if high < 99 else f"{low} or more numbers", "ns", LOWER), chosen,
                 EVERYTHING)
    fill(group.row("with a string of 16 characters", "ns", LOWER), [site for site in sites.values() if site.strings == 1],
         EVERYTHING)
    group.note("A figure is the median over the events of that kind. The thread's id goes with each event. "
               + (f"{lost:,} events did not fit into the buffers; to lose one costs much the same." if lost else "None was lost."))


def of_core(bench, sites):
    group = bench.group("While only the core set is recorded", None, "more than an empty loop", FIGURE)
    fill(group.row("events of the core set", "ns", LOWER), [site for site in sites.values() if site.sets == ["core"]], CORE)
    fill(group.row("events of other sets", "ns", LOWER), [site for site in sites.values() if "core" not in site.sets], CORE)
    for name, site in sites.items():
        if name.endswith(FILTERED):
            fill(group.row(name, "ns", LOWER), [site], CORE)
    group.note("A filter is looked at for each event: one that is filtered out is not free.")


def of_each(bench, sites):
    for state in (IDLE, EVERYTHING):
        group = bench.group(f"Each event, {state}", None, "more than an empty loop", FIGURE)
        for name, site in sites.items():
            fill(group.row(f"{name}, {site.fields} field{'s' if site.fields > 1 else ''}", "ns", LOWER), [site], state)
        group.detail()


def main():
    bench = Bench("tracing", ABOUT)
    if not shutil.which("lttng-sessiond"):
        print("lttng-sessiond is not installed (apt-get install lttng-tools)")
        return 77
    # The long loop makes a part of a nanosecond visible; the short one leaves the buffers room for all events.
    rounds, idle_count, recorded_count = (1, 1000, 100) if bench.quick else (9, 1000000, 4000)
    with tempfile.TemporaryDirectory(prefix="vblk-bench-", dir="/var/tmp") as name:
        sites, lost = measure(pathlib.Path(name), rounds, idle_count, recorded_count)
    of_unrecorded(bench, sites)
    of_recorded(bench, sites, lost)
    of_core(bench, sites)
    of_each(bench, sites)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
