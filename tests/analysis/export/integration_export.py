#!/usr/bin/env python3
"""Goal: an exported recording is a document that Perfetto reads without complaint and that tells what happened.

Method: every document is checked event by event: valid JSON, known phases, each begin closed by its end in the right order, times that never
decrease on a track, arrows and asynchronous slices with both ends. That is done with a built story whose slices are known, with the archive of
known recordings, with a damaged, an empty and another program's trace. If it fails: the viewer shows nothing, or slices that never were.
"""

import json
import resource
import signal
import sys
import tarfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from analyze_tool import build, expect, main, run  # noqa: E402

CASES = Path(__file__).parents[1] / "cases/cases.tar.xz"
STORY = """
1   cpu0 vtid=7 rt_process:info version=1.0 contract_version=1
1.1 cpu0 vtid=7 rt_loop:create loop_id=1 name=main thread_id=7
1.2 cpu0 vtid=7 rt_pool:local_sample thread_id=7 name="io \\\\ 0"
1.3 cpu0 vtid=7 vblk_dataplane:device_create device_id=1 name=disk queue_count=1
2   cpu0 vtid=7 rt_loop:wait_begin loop_id=1 timeout_ns=-1
3   cpu0 vtid=7 rt_loop:wait_end loop_id=1 ready_count=1
3.1 cpu0 vtid=7 rt_coroutine:enter coroutine_id=5 thread_id=7 loop_id=1
3.2 cpu0 vtid=7 vblk_request:begin request_id=9 device_id=1 queue_index=0 type=1 size_bytes=4096
3.3 cpu0 vtid=7 rt_coroutine:enter coroutine_id=6 from_id=5 thread_id=7 loop_id=1
3.4 cpu0 vtid=7 rt_coroutine:yield coroutine_id=6 to_id=5 thread_id=7
3.5 cpu0 vtid=7 vblk_request:submit request_id=9
3.6 cpu0 vtid=7 rt_coroutine:terminate coroutine_id=5 thread_id=7
3.7 cpu0 vtid=7 rt_coroutine:yield coroutine_id=77 thread_id=7
4   cpu0 vtid=7 rt_loop:poll_begin loop_id=1
4.1 cpu1 vtid=8 vblk_request:complete request_id=9
4.2 cpu1 vtid=8 vblk_request:end request_id=9
4.3 cpu1 vtid=8 vblk_request:end request_id=10
4.5 cpu1 vtid=8 vblk_queue:broken device_id=1 queue_index=0 error=-71 reason="x"
5   cpu0 vtid=7 vblk_request:begin request_id=11 device_id=1 queue_index=0
5.1 cpu0 vtid=7 vblk_queue:sample device_id=1 queue_index=0 avail_index=2 popped_index=65535 in_flight=4
"""


def check(document):
    """Raises for anything that the format does not allow."""
    stacks, last, flows, slices = {}, {}, Counter(), {}
    for event in document["traceEvents"]:
        phase, track = event["ph"], (event["pid"], event["tid"])
        expect(phase in "MBEbesfCi", event)
        if phase == "M":
            expect(event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str), event)
            continue
        expect(event["ts"] >= last.get(track, 0), f"time goes back on {track}: {event}")
        last[track] = event["ts"]
        if phase == "B":
            stacks.setdefault(track, []).append(event["name"])
        elif phase == "E":
            expect(stacks.get(track), f"an end without begin: {event}")
            stacks[track].pop()
        elif phase in "be":
            open_slices = slices.setdefault((event["cat"], event["id"]), [])
            if phase == "b":
                open_slices.append(event["name"])
            else:
                expect(open_slices and open_slices.pop() == event["name"], f"ends out of order: {event}")
        elif phase in "sf":
            expect(flows[event["id"]] == (0 if phase == "s" else 1), f"an arrow with other ends than two: {event}")
            flows[event["id"]] += 1 if phase == "s" else -1
        elif phase == "C":
            expect(all(isinstance(value, int) and value >= 0 for value in event["args"].values()), event)
    expect(not any(stacks.values()) and not any(slices.values()) and not any(flows.values()), "something is left open")


def export(trace, status=0):
    result = run("export", "--format=chrome", trace)
    expect(result.status == status, f"{trace}: {result.status} {result.err}")
    document = json.loads(result.out)
    check(document)
    return document


def test_a_story(folder):
    document = export(build(folder / "t", STORY))
    events = document["traceEvents"]
    begin_us = int(document["otherData"]["begin_ns"]) / 1000

    def times(phase, name):
        return [round(event["ts"] / 1e6, 3) for event in events if event["ph"] == phase and event.get("name") == name]

    expect(begin_us > 0 and times("B", "wait") == [1.0] and times("B", "busy") == [2.0] and times("B", "poll") == [3.0], events)
    expect(times("B", "coroutine 5") == [2.1] and times("B", "coroutine 6") == [2.3] and not times("B", "coroutine 77"), events)
    expect(times("b", "request") == [2.2, 4.0] and times("e", "request") == [3.2, 4.1], events)
    expect(times("b", "backend") == [2.5] and times("b", "completing") == [3.1], events)
    arrows = [(event["ph"], event["tid"]) for event in events if event["ph"] in "sf"]
    expect(arrows == [("s", 7), ("f", 8), ("s", 7), ("f", 0)], arrows)
    expect([e["args"] for e in events if e.get("name") == "disk queue 0"] == [{"depth": 7}], "depth: 3 in the ring, 4 in flight")
    expect([e["args"]["name"] for e in events if e.get("name") == "thread_name" and e["pid"] == 1][:1] == ["io \\ 0"], "the thread's name")
    expect(times("i", "vblk_queue:broken") == [3.5] and times("B", "queue-broken") == [3.5], "anomaly and finding")


def test_known_recordings(folder):
    with tarfile.open(CASES) as archive:
        archive.extractall(folder)
    phases = Counter()
    for case in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("e-")):
        phases.update(event["ph"] for event in export(case)["traceEvents"])
    expect(all(phases[phase] > 10 for phase in "MBEbesfCi"), phases)


def test_damaged_empty_and_other_traces(folder):
    export(build(folder / "cut", STORY + "!cut cpu0 -10\n"))
    export(build(folder / "lossy", "!discard cpu0 3.05 3.15\n" + STORY))
    expect(export(build(folder / "empty", ""))["traceEvents"], "a document without slices")
    export(build(folder / "other", "!declare none\n!event my:event fd=i32\n1 cpu0 my:event fd=3\n"))


def test_output_and_mistakes(folder):
    build(folder / "t", STORY)
    result = run("export", f"--output={folder}/t.json", folder / "t")
    expect(result.status == 0 and result.out == "" and (folder / "t.json").read_text() == run("export", folder / "t").out, result.err)
    for words, status, said in (((), 2, "no trace given"), ((folder / "none",), 2, "No such file"), (("--format=x", folder), 2, "--format"),
                                (("--output=/dev/full", folder / "t"), 1, "no space left"),
                                ((f"--output={folder}/no/t.json", folder / "t"), 1, "cannot be written")):
        result = run("export", *words)
        expect(result.status == status and said in result.err, f"{words}: {result.status} {result.err}")


def test_no_room_for_the_temporary_file(folder):
    build(folder / "t", STORY)

    def no_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    result = run("export", f"--output={folder}/t.json", folder / "t", preexec_fn=no_room)
    expect(result.status == 1 and "temporary file cannot be written" in result.err, f"{result.status} {result.err}")
    expect(not (folder / "t.json").exists(), "half a document was delivered")


main(dict(globals()))
