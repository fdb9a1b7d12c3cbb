#!/usr/bin/env python3
"""Goal: the report does not depend on how many processes decode the recording, to the byte, and neither does what
happens to damaged input, to an interrupt, or when one of the processes dies.

Method: every recording with a known truth (../cases) is analyzed with one process and with several; then traces with
equal times in several streams, several traces, and streams that are cut. A larger one is interrupted while several
processes read it, also while one of these lags behind, and one of the decoding processes is killed.
If it fails: a verdict would depend on the machine it was made on, or a recording could not be judged on some.

Usage: integration_jobs.py
"""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parents[1]))
sys.path.insert(0, str(HERE.parent / "builder"))
from build_trace import Trace  # noqa: E402
from waiting import wait_for  # noqa: E402  (tests/waiting.py)

VBLKSCOPE = os.environ["VBLKSCOPE"]
DEADLINE_S = 60
LONG_EVENTS = 400


def analyze(jobs, *paths):
    result = subprocess.run([VBLKSCOPE, "analyze", f"--jobs={jobs}", "--format=json", *map(str, paths)],
                            stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    return result.returncode, result.stdout, result.stderr.replace(b"\r", b"")


def compare(*paths, jobs=(2, 5)):
    one = analyze(1, *paths)
    assert one[0] in (0, 1, 2, 3), one
    for count in jobs:
        assert analyze(count, *paths) == one, f"{paths}: with {count} processes another result than with one"
    return one


def build(folder, name, events):
    path = Path(folder) / name
    Trace().read(events.splitlines()).write(str(path))
    return path


def check_cases(folder):
    with tarfile.open(HERE.parent / "cases" / "cases.tar.xz") as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    cases = sorted({Path(root) for root, _, files in os.walk(folder) if "metadata" in files})
    assert len(cases) > 30, cases
    if os.environ.get("SANITIZER_RUNTIME"):
        cases = cases[::4]  # a sanitizer sees the same code in each, and takes ten times as long
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [pool.submit(compare, case, jobs=(2 + number % 7,)) for number, case in enumerate(cases)]
        for result in results:
            result.result()
    return cases


def dispatches(cpus, first_s, count):
    """Events of the same times on every processor."""
    return "".join(f"{first_s + number // 2} cpu{cpu} vtid={cpu + 7} rt_loop:fd_dispatch loop_id={cpu + 1} handler_id={cpu + 1} "
                   f"fd=3 progress={number % 3 == 0:d}\n" for number in range(count) for cpu in range(cpus))


def check_ties(folder):
    build(folder, "ties/a", "!trace hostname=a\n" + dispatches(5, 1, 400))
    build(folder, "ties/b", "!trace hostname=b\n" + dispatches(3, 2, 400) + "!discard cpu1 3 4\n!cut cpu2 -100\n")
    status, report, _ = compare(Path(folder) / "ties", jobs=range(2, 9))
    document = json.loads(report)
    assert document["trace"]["event_count"] > 2000, document["trace"]
    assert document["trace"]["cut_streams"] and document["trace"]["lost_intervals"], document["trace"]


def children(pid):
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def start(trace):
    process = subprocess.Popen([VBLKSCOPE, "analyze", "--jobs=2", "--format=json", str(trace)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def decoders():
        return [pid for child in children(process.pid) for pid in children(child)]
    try:
        wait_for(lambda: len(decoders()) == 2 or process.poll() is not None, DEADLINE_S, "two processes decode")
        assert process.poll() is None, process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process, decoders()


def check_interrupt(trace):
    process, decoders = start(trace)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert b"interrupted" in err, err
    assert json.loads(out)["trace"]["interrupted"] is True
    assert not any(Path(f"/proc/{pid}").exists() for pid in decoders), "a decoding process is left behind"


def falls_asleep(pid):
    """Wait until it waits for another process. False: it ended instead."""
    asleep, state = 0, "R"

    def settled():
        nonlocal asleep, state
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            state = "X"
        asleep = asleep + 1 if state == "S" else 0
        return asleep > 10 or state in "ZX"
    wait_for(settled, DEADLINE_S, f"process {pid} sleeps")
    return state == "S"


def build_long(folder):
    """Events of two processes in turn, each on a processor of its own, and each so long that few of them fit between
    two processes that read."""
    trace = Trace()
    for number in range(LONG_EVENTS):
        trace.event((number + 1) * 10**6, number % 2, "rt_process:info", version="x" * 30000, vpid=100 + number % 2)
    trace.write(str(Path(folder) / "long"))
    return Path(folder) / "long"


def interrupt_while_one_lags(trace):
    """The partial report; None: all was read before the one could be held up."""
    try:
        process, decoders = start(trace)
    except AssertionError:
        return None
    try:
        merger = children(process.pid)
        if not merger:
            return None
        os.kill(merger[0], signal.SIGSTOP)
        if not falls_asleep(decoders[0]):  # with its ring full
            return None
        os.kill(decoders[0], signal.SIGSTOP)
        os.kill(merger[0], signal.SIGCONT)
        assert falls_asleep(merger[0]), "it does not wait for the one that was stopped"
        process.send_signal(signal.SIGINT)
        return json.loads(process.communicate(timeout=DEADLINE_S)[0])
    finally:
        process.kill()
        process.communicate()


def check_interrupt_while_one_lags(trace):
    """What the others have read may come after what is missing of that one: it is not in the partial report."""
    report = next(filter(None, (interrupt_while_one_lags(trace) for _ in range(50))), None)
    assert report, "all was read before one of the processes could be stopped, each time"
    counts = [entry["event_count"] for entry in report["trace"]["processes"]]
    assert report["trace"]["interrupted"] is True
    assert counts and sum(counts) < LONG_EVENTS, counts
    assert max(counts) - min(counts) <= 1, counts


def check_crash(trace, whole):
    process, decoders = start(trace)
    os.kill(decoders[0], signal.SIGKILL)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert json.loads(out) == whole, (process.returncode, err)  # nothing is wrong with the trace


def main():
    with tempfile.TemporaryDirectory(prefix="vblkscope-jobs-") as folder:
        check_cases(folder)
        check_ties(folder)
        large = build(folder, "large", dispatches(2, 1, 12000))
        status, report, _ = compare(large, jobs=(3,))
        check_interrupt(large)
        check_interrupt_while_one_lags(build_long(folder))
        check_crash(large, json.loads(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
