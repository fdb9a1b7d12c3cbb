"""Goal: a recording over a kill and a restart shows whether every request was taken up again: --fault=inflight-slot-zero is
told as lost-request, naming the slot, and the device without it is not found fault with.

Method: one recording, two lives of vblkd with the same name; a front end with a slow disk keeps all its slots in flight, the
first vblkd gets SIGKILL, the second is given the in-flight region. With the fault the front end waits for slot 0 in vain.
If it fails: the fault no longer strikes, recovery is not traced as it happens, or the check is blind or sees ghosts.

Run by integration_trace.sh. Programs: $VBLKD, $VBLK_LOAD, $VBLKSCOPE.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from serving import DEADLINE_S, BackgroundLoad, Recorder, Server, main, make_image, wait_for  # noqa: E402

FAULT = "--fault=inflight-slot-zero"
LOST = "lost-request"
QUEUES, DEPTH = 2, 8
# All slots of all queues are in flight nearly always.
SLOW = "--inject=delay-us=300000"
# Longer than the disk takes, also on a machine that is busy with other things.
PATIENCE_S = 6


def restart(directory, *options):
    """(status of the front end, report) of a run over one SIGKILL."""
    trace = directory / "trace"
    image = make_image(directory / "disk.img", 256 << 10)
    arguments = [f"--socket-path={directory}/socket", f"--blk-file={image}", f"--num-queues={QUEUES}", SLOW, *options]
    recorder = Recorder(trace, None, "--events=core,request")
    try:
        recorder.wait_until_recording()
        first = Server(directory, *arguments).start()
        before_ns = image.stat().st_mtime_ns
        try:
            with BackgroundLoad(first.socket_path, "verify", f"--queues={QUEUES}", f"--iodepth={DEPTH}",
                                f"--reconnect={DEADLINE_S}", f"--timeout={PATIENCE_S}") as load:
                # Some are written, so the next ones are on their way.
                wait_for(lambda: image.stat().st_mtime_ns != before_ns or load.process.poll() is not None, DEADLINE_S, "a write")
                first.kill()
                with Server(directory, *arguments) as second:
                    status, out, err = load.finish()
                    assert "requests were in flight" in second.log(), second.log() + out + err
        finally:
            first.kill()
        recorder.finish()
    finally:
        recorder.kill()
    print(status, out, err, sep="\n")
    result = subprocess.run([os.environ["VBLKSCOPE"], "analyze", "--format=json", f"--checks={LOST},stuck-request", trace],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=4 * DEADLINE_S)
    shutil.rmtree(trace)
    report = json.loads(result.stdout)
    assert len(report["trace"]["processes"]) >= 2 and report["trace"]["event_count"], report["trace"]
    return status, report


def a_forgotten_slot_is_found(directory):
    for _ in range(4):
        status, report = restart(directory, FAULT)
        if status != 0:
            break  # else slot 0 was not in flight at the kill
    assert status == 1, "slot 0 was never in flight at a kill"
    lost = [finding for finding in report["findings"] if finding["id"] == LOST]
    assert lost, report
    assert all(finding["subject"]["head"] == 0 and finding["cause"] == "not resubmitted" for finding in lost), lost


def nothing_is_lost_without_the_fault(directory):
    status, report = restart(directory)
    assert status == 0, report
    assert not report["findings"] and not report["inconclusive"], report


main([a_forgotten_slot_is_found, nothing_is_lost_without_the_fault])
