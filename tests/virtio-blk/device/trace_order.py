"""Goal: a recording shows the dataplane's steps in the order that keeps stale notifiers out of loops and that the checks rely on.

Method: vblkd under the recorder with vblk-load in front: starts and stops, healthy and with the fault; a recording that
begins on a running device (its baseline); a start that fails. If it fails: the order of start or stop changed, a step is
not announced, or the sampler's baseline misses something; the checks then blame the innocent or see nothing.

Run by integration_trace.sh. Programs: $VBLKD, $VBLK_LOAD, $VBLKSCOPE.
"""

import array
import os
import pathlib
import socket
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from serving import DEADLINE_S, BackgroundLoad, Recorder, Server, load, main, thread_seconds, wait_for  # noqa: E402

try:
    import bt2
except ImportError:
    print("skipped: python3-bt2 is not installed")
    sys.exit(77)

STOPPED, STARTING, STARTED, STOPPING, FAILED = range(5)
RINGS = 2


def read_trace(path):
    """[(event name, {field: value})] in order."""
    events = []
    for message in bt2.TraceCollectionMessageIterator(str(path)):
        if type(message) is bt2._EventMessageConst:
            event = message.event
            fields = {}
            for name, value in event.payload_field.items():
                fields[name] = str(value) if isinstance(value, bt2._StringFieldConst) else int(value)
            events.append((event.name, fields))
    return events


def record(directory, use, *options, before=None):
    """The events of a vblkd from before its first front end to its end. On a busy machine a short life may end before its sampler has
    come to the baseline: then another one is recorded."""
    for number in range(20):
        events = record_life(directory, directory / f"trace-{number}", use, options, before)
        if any(name == "rt_process:baseline_end" for name, _ in events):
            return events
    raise AssertionError("no life of a device had a baseline")


def record_life(directory, trace, use, options, before):
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", f"--num-queues={RINGS}", "--iothreads=2",
                *options) as server:
        if before:
            before(server)
        recorder = Recorder(trace, server.process.pid, "--events=core")
        try:
            wait_for(lambda: baseline_is_there(server), DEADLINE_S, "the recording is on")
            use(server)
            server.stop()
            recorder.finish()
        finally:
            recorder.kill()
    return read_trace(trace)


def baseline_is_there(server):
    """A session that is active for this process: the recorder's listing says so."""
    listing = subprocess.run(["lttng", "--no-sessiond", "list"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return "[active]" in listing.stdout


def live(events):
    """Without baselines, dataplane only."""
    result, inside = [], False
    for name, fields in events:
        if name == "rt_process:baseline_begin":
            inside = True
        elif name == "rt_process:baseline_end":
            inside = False
        elif not inside and name.startswith("vblk_dataplane:"):
            result.append((name.split(":")[1], fields))
    return result


def runs_of(events):
    """[events of one life, from leaving stopped until stopped again]"""
    runs, now = [], []
    for name, fields in events:
        if name == "device_create" or name == "device_destroy":
            continue
        now.append((name, fields))
        if name == "state" and fields["new_state"] == STOPPED:
            runs.append(now)
            now = []
    assert not now, f"the device ended in the middle of something: {now}"
    return runs


def main_loop_id(events):
    return next(fields["loop_id"] for name, fields in events if name == "rt_loop:create" and fields["name"] == "main")


def short(run):
    """Names in order, with what tells them apart; equal neighbours once."""
    words = []
    for name, fields in run:
        word = {"state": lambda: f"state {fields['old_state']}->{fields['new_state']}",
                "notifier_commit": lambda: f"commit {fields['assign']}x{fields['count']}",
                "drain_begin": lambda: f"drain_begin in {fields['state']}",
                "drain_end": lambda: f"drain_end in {fields['state']}"}.get(name, lambda: name)()
        if not words or words[-1] != word:
            words.append(word)
    return words


HEALTHY = ["state 0->1", "notifier_assign", f"commit 1x{RINGS}", "drain_begin in 1", "drain_end in 1", "loop_change",
           "notifier_attach", "state 1->2",
           "state 2->3", "notifier_detach", "notifier_release", f"commit 0x{RINGS}", "drain_begin in 3", "loop_change",
           "drain_end in 3", "state 3->0"]


def start_and_stop(server):
    # With the rings stopped one by one the last one stops the device; a front end that leaves stops all at once.
    with BackgroundLoad(server.socket_path, f"--queues={RINGS}", "--runtime=60") as front_end:
        wait_for(lambda: "connected" in server.log(), DEADLINE_S, "it is connected")
        front_end.process.kill()
    load(server.socket_path, f"--queues={RINGS}", "--number-ios=200")


def healthy_order(directory):
    events = record(directory, start_and_stop)
    main_id = main_loop_id(events)
    runs = runs_of(live(events))
    assert runs, "nothing was recorded"
    for run in runs:
        for name, fields in run:
            assert name != "notifier_attach" or fields["loop_id"] != main_id, "a notifier in the main loop"
    # The last one: rings are stopped one by one; each detached, released and only then the next.
    words = [word for word in short(runs[-1]) if word]
    until = words.index("state 1->2")
    assert words[:until + 1] == HEALTHY[:until + 1], words
    stop = words[words.index("state 2->3"):]
    assert stop == [word.replace(f"0x{RINGS}", "0x1") for word in HEALTHY[HEALTHY.index("state 2->3"):]], words
    alone = words[until + 1:words.index("state 2->3")]
    assert alone == ["notifier_detach", "notifier_release", "commit 0x1", "loop_change"], words
    for run in runs:
        released = [fields["queue_index"] for name, fields in run if name == "notifier_release"]
        detached = [fields["queue_index"] for name, fields in run if name == "notifier_detach"]
        assert len(released) == len(set(released)) and set(detached) <= set(released), run


def faulty_order(directory):
    events = record(directory, start_and_stop, "--fault=started-before-attach")
    main_id = main_loop_id(events)
    run = runs_of(live(events))[-1]
    depth, state, wrong = 0, STOPPED, set()
    for name, fields in run:
        if name == "state":
            state = fields["new_state"]
        depth += (name == "drain_begin") - (name == "drain_end")
        if name == "notifier_attach" and fields["loop_id"] == main_id:
            assert depth == 1, "the fault attaches in a drain"
            wrong.add(state)
    assert wrong >= {STARTING}, f"the fault did not strike: {short(run)}"


def serves_every_ring(server, before):
    """Each IOThread has worked for some time since `before`: an idle loop sleeps, so its ring has been attached."""
    now = thread_seconds(server.process.pid)
    return all(now[name] - before[name] >= 0.05 for name in now if name.startswith("iothread"))


def record_while_running(directory, pid):
    """The events of a recording that is long enough for a whole baseline and two samples. LTTng, vblkd's sampler and the
    load share the machine with whatever else runs on it."""
    for duration_s in (2, 10, DEADLINE_S):
        trace = directory / f"trace-{duration_s}"
        recorder = Recorder(trace, pid, f"--duration={duration_s}")
        try:
            recorder.finish()
        except AssertionError as failure:
            if "NOTHING WAS RECORDED" not in str(failure):
                raise
            continue
        finally:
            recorder.kill()
        events = read_trace(trace)
        names = [name for name, _ in events]
        if "rt_process:baseline_end" in names and names[names.index("rt_process:baseline_end"):].count("vblk_queue:sample") >= 2 * RINGS:
            return events
    raise AssertionError(f"no whole baseline and two samples in {DEADLINE_S} s")


def leave_a_processor_free(server):
    """Request and answer wake each other so often that little else gets to run on a processor, for half a minute and more:
    they share one, and the recorder, LTTng's daemons and vblkd's other threads have the others."""
    processor = min(os.sched_getaffinity(0))
    for task in os.listdir(f"/proc/{server.process.pid}/task"):
        if pathlib.Path(f"/proc/{task}/comm").read_text().startswith("iothread"):
            os.sched_setaffinity(int(task), {processor})
    return f"--cpu={processor}"


def baseline_of_a_running_device(directory):
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", f"--num-queues={RINGS}",
                "--iothreads=2") as server, \
         BackgroundLoad(server.socket_path, f"--queues={RINGS}", "--runtime=600", "--iodepth=1",
                        leave_a_processor_free(server)) as front_end:
        wait_for(lambda: "connected" in server.log(), DEADLINE_S, "it is connected")
        before = thread_seconds(server.process.pid)
        wait_for(lambda: serves_every_ring(server, before), DEADLINE_S, "every ring is served")
        events = record_while_running(directory, server.process.pid)
        front_end.process.kill()
    begin = [name for name, _ in events].index("rt_process:baseline_begin")
    end = [name for name, _ in events].index("rt_process:baseline_end")
    baseline = events[begin:end]
    names = [name for name, _ in baseline]
    for name, count in (("vblk_dataplane:device_create", 1), ("vblk_dataplane:notifier_assign", RINGS),
                        ("vblk_dataplane:notifier_attach", RINGS), ("vblk_dataplane:loop_change", RINGS),
                        ("vblk_queue:sample", RINGS), ("vblk_dataplane:drain_begin", 0)):
        assert names.count(name) == count, f"{name}: {names.count(name)} instead of {count}: {names}"
    assert names.count("vhost_user:connect") >= 1, names
    state = next(fields for name, fields in baseline if name == "vblk_dataplane:state")
    assert state["old_state"] == state["new_state"] == STARTED, state
    for name, fields in baseline:
        if name == "vblk_dataplane:loop_change":
            assert fields["old_loop_id"] == fields["new_loop_id"], fields
    samples = [fields for name, fields in events if name == "vblk_queue:sample" and fields["queue_index"] == 0]
    assert len(samples) >= 2, "a sample a second"
    for before, after in zip(samples, samples[1:]):
        assert before["pops"] <= after["pops"] and before["completions"] <= after["completions"], "totals never fall"
    assert samples[-1]["pops"] > samples[0]["pops"], "totals of a busy queue grow"


def say(connection, request, payload=b"", fd=-1):
    """A vhost-user message with NEED_REPLY; true if it was accepted."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
    connection.sendmsg([struct.pack("=III", request, 1 | 8, len(payload)) + payload], ancillary)
    answer = connection.recv(4096)
    return len(answer) == 20 and struct.unpack("=Q", answer[12:])[0] == 0


def ask(connection, request, payload=b""):
    connection.sendall(struct.pack("=III", request, 1, len(payload)) + payload)
    return connection.recv(4096)[12:]


def fail_to_start(server):
    """A ring whose addresses lie outside memory, by hand: vblk-load makes no such mistake."""
    memory = os.memfd_create("memory")
    os.ftruncate(memory, 1 << 20)
    kick = os.eventfd(0)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(server.socket_path)
        features = struct.unpack("=Q", ask(connection, 1))[0]
        connection.sendall(struct.pack("=IIIQ", 2, 1, 8, features & (1 << 32 | 1 << 30)))
        connection.sendall(struct.pack("=IIIQ", 16, 1, 8, 1 << 3))  # REPLY_ACK
        assert say(connection, 3)
        assert say(connection, 5, struct.pack("=IIQQQQ", 1, 0, 0, 1 << 20, 0x10000000, 0), memory)
        assert say(connection, 8, struct.pack("=II", 0, 128))
        assert say(connection, 9, struct.pack("=IIQQQQ", 0, 0, 0x20000000, 0x20001000, 0x20002000, 0))
        assert say(connection, 12, struct.pack("=Q", 0), kick)
        assert not say(connection, 18, struct.pack("=II", 0, 1)), "the start should fail"
    os.close(memory)
    os.close(kick)
    wait_for(lambda: "front end disconnected" in server.log(), DEADLINE_S, "it has left")


def failing_start(directory):
    events = record(directory, fail_to_start)
    runs = runs_of(live(events))
    assert len(runs) == 1, runs
    words = short(runs[0])
    states = [word for word in words if word.startswith("state")]
    assert states == ["state 0->1", "state 1->4", "state 4->0"], words
    assert "notifier_attach" not in words, words
    assert words.index("notifier_release") < words.index("state 1->4"), words


main([healthy_order, faulty_order, baseline_of_a_running_device, failing_start])
