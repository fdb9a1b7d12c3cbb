"""The device side of a guest test: a vhost-user-blk server, alone or recorded, and what the recording says.

Programs come from the environment, which the build sets: VBLKD, VBLKSCOPE, VBLK_GUEST_IMAGE.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from guest import GuestError
from qmp import MonitorError

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from waiting import TimeOut, is_listening, wait_for  # noqa: E402  (beside this directory)

SKIP = 77
QUEUES = 2
IOTHREADS = 2
CONTROL_DEADLINE_S = 60


def busiest_thread(pid, window_s=2.0):
    """(name, share of the next @window_s in which it ran or wanted to) of the thread with the largest share.

    On an idle machine that is what `top -H` shows. On a busy one a spinning thread gets less of a processor, but it is
    runnable all the time.
    """
    def runnable_ns():
        result = {}
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{task}/schedstat") as stat, open(f"/proc/{pid}/task/{task}/comm") as comm:
                    on_processor, waiting, _ = map(int, stat.read().split())
                    result[task] = (comm.read().strip(), on_processor + waiting)
            except (FileNotFoundError, ProcessLookupError):
                continue  # a thread that ended meanwhile
        return result

    before, begin = runnable_ns(), time.monotonic_ns()
    time.sleep(window_s)
    after, elapsed_ns = runnable_ns(), time.monotonic_ns() - begin
    shares = [(name, (used - before[task][1]) / elapsed_ns) for task, (name, used) in after.items() if task in before]
    return max(shares, key=lambda thread: thread[1])


class Device:
    """A running server of one disk file, and the recorder that looks at it alone. Leaving the context ends both."""

    def __init__(self, directory, disk, options=(), recorded=False, stand_in=False, queues=QUEUES):
        self.socket_path = os.path.join(directory, "disk.sock")
        self.control_path = os.path.join(directory, "control.sock")
        self.trace = os.path.join(directory, "trace")
        self._directory = directory
        self._recorded = recorded
        self._server = self._recorder = None
        if stand_in:
            self._command = [
                "qemu-storage-daemon", "--blockdev", f"driver=file,node-name=disk,filename={disk}",
                "--export", "type=vhost-user-blk,id=export,node-name=disk,writable=on,"
                f"addr.type=unix,addr.path={self.socket_path},num-queues={QUEUES}"]
        else:
            self._command = [os.environ["VBLKD"], f"--socket-path={self.socket_path}", f"--blk-file={disk}",
                             f"--num-queues={queues}", f"--iothreads={IOTHREADS}", f"--control-path={self.control_path}",
                             *options]

    @property
    def pid(self):
        return self._server.pid

    def __enter__(self):
        try:
            self._server = self._start("device.log", self._command)
            self._await(self._server, "device.log", lambda: is_listening(self.socket_path), "no socket to connect to")
            if self._recorded:
                self._recorder = self._start("recorder.log", [
                    os.environ["VBLKSCOPE"], "record", f"--output={self.trace}", "--events=core,loop,request",
                    f"--pid={self.pid}"])
                self._await(self._recorder, "recorder.log", lambda: "recording " in self._log("recorder.log"),
                            "no recording began")
        except BaseException:
            self._kill()
            raise
        return self

    def _start(self, log_name, command):
        with open(os.path.join(self._directory, log_name), "wb") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _await(self, process, log_name, condition, what):
        wait_for(lambda: condition() or process.poll() is not None, 60, what)
        if process.poll() is not None:
            raise GuestError(f"{what}: status {process.returncode}: {self._log(log_name)}")

    def __exit__(self, kind, value, trace):
        self._kill()

    def _kill(self):
        if self._server and self._server.poll() is None:
            self._server.kill()
            self._server.wait()
        if self._recorder and self._recorder.poll() is None:
            # It ends with the process that it records, and takes its tracing session along.
            try:
                self._recorder.wait(20)
            except subprocess.TimeoutExpired:
                self._recorder.kill()
                self._recorder.wait()

    def control(self, command, **arguments):
        """A command of the control socket, and its answer."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(CONTROL_DEADLINE_S)
            client.connect(self.control_path)
            client.sendall(json.dumps({"command": command, "arguments": arguments}).encode() + b"\n")
            with client.makefile() as answers:
                answer = json.loads(answers.readline())
        if "error" in answer:
            raise GuestError(f"vblkd refused {command} {arguments}: {answer['error']['message']}")
        return answer["return"]

    def kill_and_restart(self):
        """SIGKILL, and another one on the left-over socket."""
        self._server.kill()
        self._server.wait()
        self._server = self._start("device.log", self._command)
        self._await(self._server, "device.log", lambda: "ready, serving" in self._log("device.log"), "no socket to connect to")

    def log(self):
        return self._log("device.log")

    def stop(self, timeout_s=60):
        """SIGTERM: everything acknowledged is on disk, the status is 0, and so is that of the recorder."""
        self._server.terminate()
        for process, log_name in ((self._server, "device.log"), (self._recorder, "recorder.log")):
            if not process:
                continue
            try:
                status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise GuestError(f"{log_name}: no end within {timeout_s} s: {self._log(log_name)}") from None
            if status != 0:
                raise GuestError(f"{log_name}: ended with status {status}: {self._log(log_name)}")

    def _log(self, name):
        with open(os.path.join(self._directory, name), errors="replace") as log:
            return log.read()


# A guest on an emulated processor and a machine that is busy with other things must not look like a fault of the device.
LIMITS = ["--loop-hog=5s", "--slow-p999=5s", "--late-wakeup=5s"]


def analyze(trace):
    """(exit status, report) of `vblkscope analyze`; prints the text report for whoever reads the test's log."""
    command = [os.environ["VBLKSCOPE"], "analyze", trace, *LIMITS]
    text = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(text.stdout, text.stderr, sep="", flush=True)
    found = subprocess.run([*command, "--format=json"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if found.returncode != text.returncode:
        raise GuestError(f"text report: status {text.returncode}, JSON report: status {found.returncode}")
    try:
        return found.returncode, json.loads(found.stdout)
    except json.JSONDecodeError as error:
        raise GuestError(f"the JSON report cannot be read ({error}):\n{found.stdout}{found.stderr}") from None


def step(text):
    """Say what comes next and when: the log of a slow test shows where the time went."""
    print(f"[{time.monotonic() - step.begin:6.1f} s] {text}", flush=True)


step.begin = time.monotonic()


def print_logs(directory):
    for place, _, names in os.walk(directory):
        for name in sorted(set(names) & {"device.log", "recorder.log", "console.log", "qemu.log"}):
            with open(os.path.join(place, name), errors="replace") as log:
                print(f"--- {name}, last 60 lines", *log.read().splitlines()[-60:], sep="\n")


def _end_by_signal(number, frame):
    """SIGTERM (the build's test timeout) unwinds like an exception, so that nothing stays behind."""
    raise GuestError(f"ended by signal {number}")


def main(test):
    """Run test(directory, image) in a temporary directory and turn its outcome into an exit status."""
    if not shutil.which("qemu-system-x86_64"):
        print("qemu-system-x86_64 is not installed")
        return SKIP
    image = os.environ["VBLK_GUEST_IMAGE"]
    status = subprocess.run(["sh", os.path.join(HERE, "build-image.sh"), image], stdin=subprocess.DEVNULL).returncode
    if status != 0:
        return status
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end_by_signal)
    with tempfile.TemporaryDirectory(prefix="vblk-guest-") as directory:
        try:
            test(directory, image)
            step("passed")
            return 0
        except (GuestError, MonitorError, TimeOut) as error:
            print(f"FAILED: {error}")
            print_logs(directory)
            return 1
