"""Goal: each historical mistake strikes, is noticed by a user, and is told by name from a recording; the device as it is has neither.

Method: vblkd with --fault=NAME under a front end (drive.c) that makes the moment in which the mistake matters, recorded with LTTng
and analysed. Then the same without the fault: no damage, and nothing is found at all. If it fails: the mistake does not
strike any more, so that its detection is untested; or it strikes and the analysis does not see it; or a healthy device is accused.

Usage: striking.py FAULT... (with underscores), run by integration_trace.sh. Programs: $VBLKD, $VBLKSCOPE, $DRIVE.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "bench"), str(HERE.parents[1] / "analysis")]
import verdicts  # noqa: E402
from recording import Recording  # noqa: E402
from serving import DEADLINE_S, Server, main, thread_seconds, wait_for  # noqa: E402
from waiting import TimeOut  # noqa: E402

# How long a world that stands still is left so, and what the analyses call standing still; a loop that is late or slow because the
# machine is busy must not look like the device's fault.
PATIENCE_S = 3
STRIKES_WITHIN_S = 20
STARTS_MAX = 6
LIMITS = ["--stuck-request=1500ms", "--deaf-queue=500ms", "--deferred-interrupt=1s", "--late-wakeup=1s", "--loop-hog=20s",
          "--slow-p999=20s", "--sustained=30"]


class Run:
    """One device, one front end, one recording."""

    def __init__(self, directory, fault, options, sets):
        name = f"fault-{fault}" if fault else "healthy"
        self.directory = directory / name
        self.directory.mkdir()
        given = [f"--fault={fault}"] if fault else []
        self.control = f"{self.directory}/control"
        self.server = Server(self.directory, f"--socket-path={self.directory}/socket", "--blk-file=null:1G",
                             f"--control-path={self.control}", *given, *options)
        self.is_faulty = fault is not None
        self.sets = sets
        self.report = self.user = self.recording = None

    def start(self):
        """A mistake may put the main loop to sleep before it says that it is ready: then another one is started, as a user would."""
        for _ in range(STARTS_MAX - 1 if self.is_faulty else 0):
            try:
                return self.server.start(10)
            except TimeOut:
                self.server.kill()
        try:
            return self.server.start()
        except BaseException:
            self.server.kill()
            raise

    def __enter__(self):
        self.start()
        try:
            self.recording = Recording(self.directory, self.server.process.pid, self.sets)
        except BaseException:
            self.server.kill()
            raise
        return self

    def __exit__(self, kind, *_):
        self.server.kill()  # the fault may have taken away its way to end
        if kind:
            print(f"--- log of vblkd\n{self.server.log()}\n--- user: {self.user}\n--- findings: "
                  f"{json.dumps(self.report and self.report['findings'], indent=1)}\n--- not told: "
                  f"{self.report and self.report['inconclusive']}")
        self.recording.remove()

    def drive(self, scenario, queues=1, depth=1, seconds=1.0):
        """Start the front end."""
        return subprocess.Popen([os.environ["DRIVE"], self.server.socket_path, scenario, str(queues), str(depth), str(seconds),
                                 str(PATIENCE_S * 1000)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def finish(self, driver):
        """What the user says; then the recording ends, while the world is still as it was for vblkd."""
        out, _ = driver.communicate(timeout=2 * DEADLINE_S)
        self.user = json.loads(out)
        return self.user

    def analyse(self):
        self.recording.stop()
        result = subprocess.run([os.environ["VBLKSCOPE"], "analyze", "--format=json", *LIMITS, str(self.recording.path)],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * DEADLINE_S)
        assert result.stdout, result.stderr
        self.report = json.loads(result.stdout)
        return self.report

    def command(self, name, **arguments):
        """On the control socket."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(DEADLINE_S)
            control.connect(self.control)
            control.sendall(json.dumps({"command": name, "arguments": arguments}).encode() + b"\n")
            answer = json.loads(control.makefile().readline())
        assert "return" in answer, answer
        return answer["return"]

    def pops(self):
        """How far the first queue has read its ring; 0: there is none yet."""
        queues = self.command("queues")["queues"]
        return queues[0]["popped_index"] if queues else 0

    def rests(self):
        """Whether nothing comes any more."""
        before = self.pops()
        time.sleep(0.1)
        return self.pops() == before

    def busy_share(self, thread):
        """Of the time in which its thread could have slept, how much it did not: on a processor, or waiting for one."""
        times = [self._running_seconds(thread)]
        begin = time.monotonic()
        time.sleep(0.3)
        return (self._running_seconds(thread) - times[0]) / (time.monotonic() - begin)

    def _running_seconds(self, thread):
        for task in pathlib.Path(f"/proc/{self.server.process.pid}/task").iterdir():
            if (task / "comm").read_text().rstrip() == thread:
                return sum(int(number) for number in (task / "schedstat").read_text().split()[:2]) / 1e9
        raise AssertionError(f"no thread {thread}")


def expect(run, identifiers, causes=(), **subject):
    """The verdict names the mistake, and whom it concerns."""
    found = [finding for finding in run.report["findings"] if finding["id"] in identifiers]
    assert found, f"none of {identifiers}: {[finding['id'] for finding in run.report['findings']]}"
    for finding in found:
        assert not causes or finding["cause"] in causes, finding
        for key, value in subject.items():
            assert finding["subject"].get(key) == value, (key, value, finding)
    assert run.report["trace"]["processes"][0]["faults"], run.report["trace"]["processes"]
    tell_verdict(run, {finding["id"] for finding in found})
    return found


def tell_verdict(run, wanted):
    """To the table of verdicts; what follows from the mistake, a stuck request of a loop that hangs, is no false alarm."""
    told = {finding["id"] for finding in run.report["findings"] if finding["severity"] != "info"}
    name = run.directory.name
    which = sys.argv[1].replace("_", "-")
    source = f"vblkd-{name}" if wanted else f"vblkd-{name}-{which}"
    verdicts.tell(source, [verdicts.row(f"vblkd {'healthy, as for ' + which if not wanted else name}", wanted,
                                        wanted if wanted else told)])


def expect_healthy(run):
    wrong = [finding for finding in run.report["findings"] if finding["severity"] != "info"]
    tell_verdict(run, set())
    assert not wrong, wrong
    assert not run.report["trace"]["processes"][0]["faults"]
    assert run.user["outcome"] == "done" and run.user["requests"] > 0, run.user


@contextlib.contextmanager
def strikes(directory, fault, options, sets, scenario, seconds=STRIKES_WITHIN_S, **driven):
    """The faulty device, driven until its user is stuck, and analysed."""
    with Run(directory, fault, options, sets) as run:
        run.finish(run.drive(scenario, seconds=seconds, **driven))
        run.analyse()
        yield run


def is_healthy(directory, options, sets, scenario, **driven):
    with Run(directory, None, options, sets) as run:
        run.finish(run.drive(scenario, seconds=0.5, **driven))
        run.analyse()
        expect_healthy(run)


def no_reenable_on_attach(directory):
    """Memory goes while the queue is polled: from then on the driver is never asked to kick."""
    how = (["--poll-max-ns=10000000"], "core,loop,request", "memory")
    with strikes(directory, "no-reenable-on-attach", *how, seconds=1) as faulty:
        assert faulty.user["outcome"] == "no answer", faulty.user
        expect(faulty, {"deaf-queue"}, queue_index=0)
    is_healthy(directory, *how)


def wakeup(directory, fault):
    how = (["--iothreads=2", "--request-lock=coroutine", "--poll-max-ns=0"], "core,loop", "load")
    with strikes(directory, fault, *how, queues=2, depth=4) as faulty:
        assert faulty.user["outcome"] in ("no answer", "handshake"), faulty.user
        expect(faulty, {"lost-wakeup", "late-wakeup"}, causes={"suppressed"})
    is_healthy(directory, *how, queues=2, depth=4)


def suppress_before_publish(directory):
    """Threads that hand a lock to each other: the notifier believes what it saw before."""
    wakeup(directory, "suppress-before-publish")


def no_recheck(directory):
    """The same; the loop does not look again."""
    wakeup(directory, "no-recheck")


def mutex_across_yield(directory):
    """The second request yields with the mutex, the third blocks their thread for ever."""
    how = ([], "core,lock,coroutine,request", "load")
    with strikes(directory, "mutex-across-yield", *how, depth=8) as faulty:
        assert faulty.user["outcome"] == "no answer", faulty.user
        expect(faulty, {"lock-across-yield"}, causes={"deadlock"}, class_name="fault-mutex-across-yield")
    is_healthy(directory, *how, depth=8)


def skip_interrupt(directory):
    """A ring that stopped and started again: done, and nobody says so."""
    how = ([], "core,request", "restart")
    with strikes(directory, "skip-interrupt", *how) as faulty:
        assert faulty.user["outcome"] == "no interrupt", faulty.user
        expect(faulty, {"missing-interrupt"}, queue_index=0)
    is_healthy(directory, *how)


def always_progress(directory):
    """The queue says that there is work, always: its thread never rests again."""
    for fault in ("always-progress", None):
        with Run(directory, fault, ["--poll-max-ns=1000000"], "core,loop,request") as run:
            driver = run.drive("load", seconds=1.0)
            # It is idle after that time, and stays connected as long again.
            wait_for(lambda: run.pops() > 0, DEADLINE_S, "it is loaded")
            wait_for(run.rests, DEADLINE_S, "the load has ended")
            busy = run.busy_share("iothread0")
            run.finish(driver)
            run.analyse()
            if fault:
                assert run.user["outcome"] == "done", run.user
                assert busy > 0.8, f"the idle thread uses {busy:.0%}"
                expect(run, {"false-progress"}, queue_index=0, loop="iothread0")
            else:
                assert busy < 0.2, f"the idle thread uses {busy:.0%}"
                expect_healthy(run)


def wrong_loop(directory):
    """A queue is moved away from a busy thread, which goes on to do all of its work."""
    for fault in ("wrong-loop", None):
        with Run(directory, fault, ["--iothreads=2"], "core,request") as run:
            driver = run.drive("load", queues=1, depth=8, seconds=1.0)
            wait_for(lambda: run.pops() > 100, DEADLINE_S, "it is loaded")
            run.command("move-queue", queue=0, iothread=1)
            before = thread_seconds(run.server.process.pid)
            run.finish(driver)
            after = thread_seconds(run.server.process.pid)
            used = {name: after[name] - before.get(name, 0) for name in ("iothread0", "iothread1")}
            run.analyse()
            if fault:
                assert used["iothread0"] > used["iothread1"] / 2, used
                expect(run, {"wrong-loop"}, queue_index=0, loop="iothread0")
            else:
                assert used["iothread0"] < used["iothread1"] / 4, used
                expect_healthy(run)


def moves_leave_clean_traces(directory):
    """Queues of a healthy device move to and fro under load: nobody is accused, of anything."""
    with Run(directory, None, ["--iothreads=2"], "core,loop,request") as run:
        driver = run.drive("load", queues=2, depth=4, seconds=1.0)
        wait_for(lambda: run.pops() > 0, DEADLINE_S, "it is loaded")
        moves = 0
        while moves < 100:
            run.command("move-queue", queue=moves % 2, iothread=moves // 2 % 2)
            moves += 1
        run.finish(driver)
        run.analyse()
        expect_healthy(run)
        assert not run.report["findings"], run.report["findings"]


if __name__ == "__main__":
    main([no_reenable_on_attach, suppress_before_publish, no_recheck, mutex_across_yield, skip_interrupt, always_progress,
          wrong_loop, moves_leave_clean_traces])
