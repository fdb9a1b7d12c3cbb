#!/usr/bin/env python3
"""Runs benchmarks one after another: a heading and a table each. All figures go to BUILD/bench.json, and as Markdown to
BUILD/bench/NAME.md.

With --figures the documents that show figures are brought up to date: what stands between
    <!-- figures: NAME/GROUP; ... -->
and
    <!-- end of figures -->
is replaced by the tables of these groups, of whose titles the beginning is enough (NAME alone: all of a benchmark; "machine":
what they were measured on). Run it on a machine that does nothing else.

Exit status: 0 all ran, 1 one failed, 2 usage.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# At the beginning of a line: an indented one is an example.
BEGIN = re.compile(r"^<!-- figures: (.*?) -->\n", re.M | re.S)
END = "\n<!-- end of figures -->\n"
KILL_AFTER_S = 10


class Fault(Exception):
    """One line that names object and cause."""


def benchmarks(build):
    """Those in the common form (the suite compare), then the others, each in the order of their names."""
    listed = json.loads(subprocess.run(["meson", "introspect", "--benchmarks", str(build)], check=True, capture_output=True,
                                       text=True).stdout)
    return sorted(listed, key=lambda one: (not in_common_form(one), one["name"]))


def in_common_form(benchmark):
    return any(suite.endswith(":compare") for suite in benchmark["suite"])


def run(benchmark, arguments, build):
    """The exit status. As meson has it, paths among the arguments are relative to the build directory. A benchmark that takes
    too long is asked to end, so that it ends what it started."""
    process = subprocess.Popen([*benchmark["cmd"], *arguments], stdin=subprocess.DEVNULL, cwd=benchmark["workdir"] or build,
                               env={**os.environ, **benchmark["env"]})
    try:
        return process.wait(benchmark["timeout"] or None)
    except subprocess.TimeoutExpired:
        print(f"{benchmark['name']}: took longer than {benchmark['timeout']} s", file=sys.stderr)
        return 1
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(KILL_AFTER_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_all(build, directory, chosen, quick, markdown):
    """(documents, names that failed)"""
    directory.mkdir(exist_ok=True)
    documents, failed = [], []
    for benchmark in chosen:
        name = benchmark["name"]
        print(f"\n{'## ' if markdown else '==== '}{name}\n", flush=True)
        begin, arguments = time.monotonic(), []
        result = directory / f"{name}.json"
        if in_common_form(benchmark):
            result.unlink(missing_ok=True)
            arguments = [f"--json={result}", f"--markdown={directory / name}.md"] + ["--quick"] * quick + ["--markdown"] * markdown
        status = run(benchmark, arguments, build)
        if status == 0 and arguments:
            documents.append(json.loads(result.read_text()))
        elif status not in (0, 77):
            failed.append(name)
        print(f"run_all: {name}: {time.monotonic() - begin:.0f} s, status {status}", file=sys.stderr, flush=True)
    return documents, failed


# ---- figures in documents ----


def groups_of(markdown):
    """{group title: its table and notes}, from what a benchmark wrote."""
    groups, title = {}, None
    for block in markdown.strip().split("\n\n"):
        if block.startswith("| "):
            title = block.split(" | ")[0][2:].strip()
        if title is not None:  # before the first table stands what the benchmark is about
            groups.setdefault(title, []).append(block)
    return {title: "\n\n".join(blocks) for title, blocks in groups.items()}


def machine_line(document):
    facts = document["machine"]
    return (f"Measured on {facts['date'][:10]}, commit {facts.get('commit', 'unknown')}: {facts['cores']} cores "
            f"({facts.get('processor', 'unknown')}), {facts['kernel']}, clock {facts.get('clock_source', 'unknown')}, "
            f"{facts['compiler']}, load average before {facts.get('load_before', -1):.1f}.")


def tables(directory, wanted, documents):
    """The text for one marked place."""
    out = []
    for item in re.split(r";\s*", wanted.strip()):
        name, _, title = item.partition("/")
        if name == "machine":
            out.append(machine_line(documents[0]))
            continue
        path = directory / f"{name}.md"
        if not path.exists():
            raise Fault(f"{item}: no such benchmark, or it could not run here")
        groups = groups_of(path.read_text())
        chosen = [text for one, text in groups.items() if one.startswith(title)]
        if not chosen:
            raise Fault(f"{item}: {name} has no such group; it has {', '.join(groups)}")
        out += chosen
    return "\n\n".join(out) + "\n"


def write_figures(directory, documents):
    """All or nothing."""
    changed = {}
    for path in sorted(ROOT.rglob("README.md")):
        if path.relative_to(ROOT).parts[0].startswith("build"):
            continue
        text, at, parts = path.read_text(), 0, []
        for marker in BEGIN.finditer(text):
            end = text.find(END, marker.end() - 1)
            if end < 0:
                raise Fault(f"{path}: no '{END.strip()}' after '{marker[0].strip()}'")
            parts += [text[at:marker.end()], "\n", tables(directory, marker[1], documents)]
            at = end
        if parts:
            changed[path] = "".join(parts) + text[at:]
    for path, text in changed.items():
        path.write_text(text)
        print(f"run_all: {path.relative_to(ROOT)} has the new figures", file=sys.stderr)


def end_by_signal(number, frame):
    raise SystemExit(f"ended by signal {number}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--quick", action="store_true", help="only show that they work")
    parser.add_argument("--markdown", action="store_true", help="print Markdown instead of tables")
    parser.add_argument("--figures", action="store_true", help="bring the figures in documents up to date")
    options = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, end_by_signal)
    known = benchmarks(options.build)
    if unknown := set(options.names) - {one["name"] for one in known}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; known: {', '.join(one['name'] for one in known)}")
    chosen = [one for one in known if not options.names or one["name"] in options.names]
    if options.figures and (options.quick or options.names):
        parser.error("--figures needs all benchmarks at full length")
    # Kept apart: figures of --quick must never be taken for figures.
    directory = options.build.resolve() / ("bench-quick" if options.quick else "bench")
    documents, failed = run_all(options.build, directory, chosen, options.quick, options.markdown)
    collected = directory.with_suffix(".json")
    collected.write_text(json.dumps({"schema": "vblkscope-bench-run-1", "benchmarks": documents}, indent=1) + "\n")
    print(f"run_all: all figures are in {collected}", file=sys.stderr)
    try:
        if options.figures and not failed:
            write_figures(directory, documents)
    except Fault as fault:
        print(f"run_all: {fault}", file=sys.stderr)
        return 1
    if failed:
        print(f"run_all: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
