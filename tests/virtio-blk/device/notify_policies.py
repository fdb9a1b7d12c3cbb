"""Goal: with --notify=always a recording shows event writes to polling loops, and analyze tells of them as needless; with
--notify=blocking-only there are none, and the same load is not found fault with.

Method: two IOThreads that poll, and requests of both behind one coroutine mutex, so that each wakes coroutines of the other
all the time; recorded and analysed, with each policy: by the totals alone, and with every event of the loops. If it fails:
the old way is not what it was, the new one writes to loops that poll, or the checks are blind, or see faults in per-handler
polling windows.

Run by integration_trace.sh. Programs: $VBLKD, $VBLK_LOAD, $VBLKSCOPE.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from serving import DEADLINE_S, Recorder, Server, load, main  # noqa: E402

NEEDLESS = "needless-event-writes"
# What would be wrong with waking, polling or notifications; the lock that is fought for is meant to be.
OF_LOOPS = {"lost-wakeup", "late-wakeup", "notify-me-unbalanced", "false-progress", "deaf-queue", "unread-fd", "stale-fd"}


def analyse(directory, policy, seconds, events):
    """The report on a recording of a device under load, from its start to its end."""
    trace = directory / f"trace-{policy}-{events}-{seconds}"
    recorder = Recorder(trace, None, f"--events={events}")
    try:
        recorder.wait_until_recording()
        # The longest window there is: under a load that never pauses waits turn into polling, however slow the machine is.
        with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--num-queues=2", "--iothreads=2",
                    "--request-lock=coroutine", "--poll-max-ns=1000000000", f"--notify={policy}") as server:
            load(server.socket_path, "--queues=2", "--iodepth=32", f"--runtime={seconds}")
        recorder.finish()
    finally:
        recorder.kill()
    # A notifier that has to wait for a processor in the middle of a wake-up makes it late on a busy machine.
    result = subprocess.run([os.environ["VBLKSCOPE"], "analyze", "--format=json", "--late-wakeup=5s", trace],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=4 * DEADLINE_S)
    shutil.rmtree(trace)
    return json.loads(result.stdout)


def named(report):
    return {finding["id"] for finding in report["findings"]}


def writes_while_polling(report):
    return sum(loop.get("event_writes_while_polling", 0) for loop in report["loops"])


def what_is_wrong(report):
    return json.dumps({"trace": report["trace"], "findings": report["findings"], "loops": report["loops"]}, indent=1)


def needless_writes_are_told(directory):
    # The check wants a hundred of them; a slow machine may need more time for that.
    for seconds in (4, 12, 40):
        report = analyse(directory, "always", seconds, "core")
        if NEEDLESS in named(report):
            break
    assert NEEDLESS in named(report), what_is_wrong(report)
    assert writes_while_polling(report) >= 100, what_is_wrong(report)
    subjects = {finding["subject"]["loop"] for finding in report["findings"] if finding["id"] == NEEDLESS}
    assert subjects <= {"iothread0", "iothread1"}, subjects

    # The same load, and polling it paid. A loop is known by its samples, which a busy machine takes late.
    for longer in (1, 3, 10):
        report = analyse(directory, "blocking-only", longer * seconds, "core")
        polled = [loop for loop in report["loops"] if loop.get("polls_useful", 0) > 0]
        if len(polled) == 2:
            break
    assert len(polled) == 2, what_is_wrong(report)
    assert all(loop["notifies"] > 0 for loop in polled), what_is_wrong(report)
    assert NEEDLESS not in named(report), what_is_wrong(report)


def polling_is_not_found_fault_with(directory):
    # Every event of the loops: more than the tracer keeps on most machines, and what it lost must not raise an alarm either.
    for policy in ("always", "blocking-only"):
        report = analyse(directory, policy, 1, "core,loop")
        assert report["loops"], what_is_wrong(report)
        assert not named(report) & OF_LOOPS, what_is_wrong(report)


main([needless_writes_are_told, polling_is_not_found_fault_with])
