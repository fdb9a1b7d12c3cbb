#!/usr/bin/env python3
"""Goal: no input, however damaged, hangs or crashes `vblkscope analyze`; what is whole is read, the rest is named.

Method: a built trace is cut, overwritten, emptied and mixed with others; babeltrace2's reader is replaced by one that
crashes, hangs, or never ends. If it fails: a support engineer with a damaged recording gets nothing, or waits for ever.
"""

import concurrent.futures
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from analyze_tool import BROKEN_QUEUE, DEADLINE_S, HEALTHY, VBLKSCOPE, analyze, build, expect, main  # noqa: E402

STUB = os.environ["STUB_PLUGINS"]
PAGE = 4096
# Under a sanitizer every program that is started takes a third of a second: a sample of the sample, as test_packets has them all.
SPARSE = 4 if os.environ.get("SANITIZER_RUNTIME") else 1


def stub_environment():
    return dict(os.environ, BABELTRACE_PLUGIN_PATH=STUB)


def damaged_copies(folder, name, changes):
    """For each (label, bytes): a copy of folder/t with file `name` replaced, analysed; yields label and result."""
    def one(numbered):
        number, (label, data) = numbered
        copy = folder / f"copy{number}"
        shutil.copytree(folder / "t", copy)
        (copy / name).write_bytes(data)
        result = analyze(copy)
        shutil.rmtree(copy)
        return label, result

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield from pool.map(one, enumerate(changes))


def test_stream_cut_anywhere(folder):
    build(folder / "t")
    data = (folder / "t/channel0_0").read_bytes()
    expect(len(data) == 2 * PAGE, "two packets")
    # a sample of lengths here; test_packets tries every one without the program around it
    lengths = [*range(0, 320, 7 * SPARSE), *range(320, PAGE, 509), PAGE - 1, *range(PAGE, PAGE + 330, 7 * SPARSE),
               *range(PAGE + 330, len(data), 509)]
    counts = {}
    for length, result in damaged_copies(folder, "channel0_0", [(n, data[:n]) for n in lengths]):
        trace = result.report["trace"]
        expect(result.status == 0, f"{length} bytes: status {result.status}: {result.err}")
        cut = [s["stream"] for s in trace["cut_streams"]]
        expect(len(cut) == (length != PAGE), f"{length} bytes: cut streams {cut}")
        expect(not cut or "channel0_0: damaged" in result.err, f"{length} bytes: not named: {result.err}")
        counts.setdefault(trace["event_count"], []).append(length)
    # one event on the other CPU is always there; two in the first packet, one in the second
    expect(sorted(counts) == [1, 3, 4], f"events read: {sorted(counts)}")
    expect(max(counts[1]) < min(counts[3]) < PAGE < min(counts[4]), "more bytes never mean fewer events")


def test_metadata_cut_at_many_lengths(folder):
    build(folder / "t", "!packetised\n" + HEALTHY)
    data = (folder / "t/metadata").read_bytes()
    lengths = [*range(0, 44, SPARSE), *range(44, 4200, 127 * SPARSE), 4095, 4097, 4200]
    for length, result in damaged_copies(folder, "metadata", [(n, data[:n]) for n in lengths]):
        expect(result.status == 2, f"{length} bytes: status {result.status}")
        expect("metadata" in result.err, f"{length} bytes: {result.err}")


def test_plain_metadata_cut_at_many_lengths(folder):
    build(folder / "t", "!declare rt_loop:create\n" + HEALTHY)
    data = (folder / "t/metadata").read_bytes()
    for length, result in damaged_copies(folder, "metadata", [(n, data[:n]) for n in range(0, len(data), 97 * SPARSE)]):
        expect(result.status in (0, 2, 3), f"{length} bytes: status {result.status}: {result.err}")


def test_overwritten_bytes(folder):
    build(folder / "t")
    data = (folder / "t/channel0_0").read_bytes()
    seed = random.SystemRandom().randrange(1 << 32)
    generator = random.Random(seed)
    changes = []
    for _ in range(40 // SPARSE):
        at = generator.randrange(0, 400) + generator.choice((0, PAGE))
        changes.append((f"seed {seed} at {at}", data[:at] + generator.randbytes(16) + data[at + 16:]))
    for label, result in damaged_copies(folder, "channel0_0", changes):
        expect(result.status in (0, 1, 3), f"{label}: status {result.status}: {result.err}")


def test_bad_event_costs_its_packet_and_what_follows(folder):
    events = "!packet cpu0 2\n!packet cpu0 4\n" + "".join(f"{t} cpu0 rt_loop:destroy loop_id={t}\n" for t in range(1, 7))
    build(folder / "t", events + "9 cpu1 rt_loop:destroy loop_id=9\n")
    data = bytearray((folder / "t/channel0_0").read_bytes())
    data[PAGE + 84:PAGE + 86] = b"\xf0\xf0"     # the id of the second packet's first event
    (folder / "t/channel0_0").write_bytes(data)
    result = analyze(folder / "t")
    trace = result.report["trace"]
    expect(trace["event_count"] == 3, f"two of the first packet, one of CPU 1: {trace['event_count']}")
    expect(len(trace["cut_streams"]) == 1, trace["cut_streams"])
    expect(trace["cut_streams"][0]["begin_ns"] == 1_700_000_002 * 10**9, trace["cut_streams"])
    expect("cannot be decoded" in result.err, result.err)


def test_empty_stream_is_named(folder):
    build(folder / "t", HEALTHY + "!cpus 3\n!cut cpu2 0\n")
    result = analyze(folder / "t")
    expect([s["stream"] for s in result.report["trace"]["cut_streams"]] == [str(folder / "t/channel0_2")], result.out)
    expect("channel0_2: damaged: the file is empty" in result.err, result.err)


def test_rotated_chunk_where_nothing_happened(folder):
    build(folder / "t", HEALTHY + "!cpus 3\n!cut cpu2 0\n")
    (folder / "t/index").mkdir()
    (folder / "t/index/channel0_2.idx").write_bytes(bytes.fromhex("c1f1dcc1" "00000001" "00000001" "00000048"))
    result = analyze(folder / "t")
    expect(result.status == 0 and result.report["trace"]["cut_streams"] == [], result.out)


def test_bad_input_among_good_ones(folder):
    build(folder / "good", BROKEN_QUEUE)
    (folder / "not-a-trace").mkdir()
    (folder / "not-a-trace/notes.txt").write_text("hello\n")
    build(folder / "syntax")
    (folder / "syntax/metadata").write_text("/* CTF 1.8 */\ntrace { this is no metadata };\n")
    for bad, reason in (("not-a-trace", "no trace here"), ("syntax", "babeltrace2"), ("nowhere", "No such file")):
        result = analyze(folder / bad, folder / "good")
        expect(result.status == 2, f"{bad}: status {result.status}")
        expect(result.ids() == ["queue-broken"], f"{bad}: the rest is analysed: {result.out}")
        unreadable = result.report["trace"]["unreadable"]
        expect([u["path"] for u in unreadable] == [str(folder / bad)] and reason in unreadable[0]["reason"], unreadable)
        expect(str(folder / bad) in result.err and reason in result.err, result.err)


def test_order_and_repetition_of_inputs_do_not_matter(folder):
    build(folder / "a/ust", HEALTHY)
    build(folder / "b", BROKEN_QUEUE.replace("1.6 ", "1.65 "))
    one = analyze(folder / "a", folder / "b").out
    expect(one == analyze(folder / "b", folder / "a").out, "the other way round")
    expect(one == analyze(folder / "b", folder, folder / "a/ust/").out, "some of it twice")


def test_unreadable_files(folder):
    if os.geteuid() == 0:
        return      # everything is readable; the other tests show what happens with what is not
    build(folder / "t")
    (folder / "t/metadata").chmod(0)
    result = analyze(folder / "t")
    expect(result.status == 2 and "Permission denied" in result.err, result.err)


def test_no_room_for_the_copy(folder):
    build(folder / "t", HEALTHY + "!cut cpu0 -10\n!packet cpu0 3.2\n!cut cpu0 -5000\n")
    result = analyze(folder / "t", env=dict(os.environ, TMPDIR="/nonexistent-folder"))
    expect(result.status == 2 and "TMPDIR" in result.err, result.err)


def test_reader_that_crashes_costs_its_input_only(folder):
    build(folder / "crash")
    build(folder / "fine", HEALTHY.replace("1.5 ", "1.55 "))
    result = analyze(folder / "crash", folder / "fine", env=stub_environment())
    expect(result.status == 2, f"status {result.status}")
    unreadable = result.report["trace"]["unreadable"]
    expect([u["path"] for u in unreadable] == [str(folder / "crash")], unreadable)
    expect("crashed" in unreadable[0]["reason"], unreadable)


def test_reader_that_hangs_costs_its_input_only(folder):
    build(folder / "hang")
    build(folder / "fine", HEALTHY.replace("1.5 ", "1.55 "))
    result = analyze("--stall-timeout=1", folder / "fine", folder / "hang", env=stub_environment())
    expect(result.status == 2, f"status {result.status}")
    unreadable = result.report["trace"]["unreadable"]
    expect([u["path"] for u in unreadable] == [str(folder / "hang")], unreadable)
    expect("no further" in unreadable[0]["reason"], unreadable)


class Started:
    """The program with the stub reader, once the stub has said a word."""

    def __init__(self, folder, word):
        self.process = subprocess.Popen([VBLKSCOPE, "analyze", "--format=json", str(folder)], env=stub_environment(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in self.process.stderr:
            if word in line.decode(errors="replace"):
                return
        raise AssertionError(f"the stub never said {word}")

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def test_ctrl_c_gives_a_partial_report(folder):
    build(folder / "endless")
    for number in (signal.SIGINT, signal.SIGTERM):
        with Started(folder / "endless", "endless") as process:
            process.send_signal(number)
            out, err = process.communicate(timeout=DEADLINE_S)
            expect(b'"interrupted": true' in out, (out, err))
            expect(b"partial" in err, err)
            expect(process.returncode == 3, process.returncode)


def test_second_ctrl_c_gives_up_and_cleans_up(folder):
    build(folder / "t", HEALTHY + "!cut cpu0 -5000\n")
    scratch = folder / "hang"       # the copy that is read lies below it
    scratch.mkdir()
    os.environ["TMPDIR"] = str(scratch)
    try:
        with Started(folder / "t", "hanging") as process:
            expect(len(list(scratch.iterdir())) == 1, "the copy is there")
            deadline = time.monotonic() + DEADLINE_S
            while process.poll() is None and time.monotonic() < deadline:
                process.send_signal(signal.SIGINT)
                time.sleep(0.05)
            out, _ = process.communicate(timeout=DEADLINE_S)
            expect(process.returncode == 1 and out == b"", (process.returncode, out))
            expect(list(scratch.iterdir()) == [], "the copy is gone")
    finally:
        del os.environ["TMPDIR"]


main(dict(globals()))
