"""vblkd as a process, and vblk-load against it, for the integration tests beside this file.

Programs come from the environment, which the build sets: VBLKD, VBLK_LOAD, VBLKSCOPE. VBLKD_OPTIONS are given to every
vblkd besides, so that a test can be run under other policies.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from waiting import is_listening, wait_for  # noqa: E402  (tests/waiting.py)

DEADLINE_S = 60


class Server:
    """A vblkd. `options` name disks and sockets; ready when every socket path among `sockets` listens."""

    ready_words = "ready, serving"

    def __init__(self, directory, *options, sockets=("socket",), pass_fds=(), env=None):
        self.directory = pathlib.Path(directory)
        self.options = [str(option) for option in options]
        self.sockets = [str(self.directory / name) for name in sockets]
        self.log_path = self.directory / f"log-{time.monotonic_ns()}"
        self.pass_fds = pass_fds
        self.env = env
        self.process = None

    @property
    def socket_path(self):
        return self.sockets[0]

    def start(self, deadline_s=DEADLINE_S):
        with open(self.log_path, "ab") as log:
            arguments = [os.environ["VBLKD"], *os.environ.get("VBLKD_OPTIONS", "").split(), *self.options]
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            pass_fds=self.pass_fds, env=self.env)
        wait_for(lambda: self.ready_words in self.log() or self.process.poll() is not None, deadline_s, "vblkd is ready")
        assert self.process.poll() is None, f"vblkd ended at its start: {self.log()}"
        for path in self.sockets:
            assert is_listening(path), f"{path}: said to be ready, but does not listen"
        return self

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait(self, status=0):
        """Until it has ended, with that status."""
        ended = self.process.wait(DEADLINE_S)
        assert ended == status, f"vblkd: status {ended} instead of {status}: {self.log()}"
        assert "Sanitizer" not in self.log() and "runtime error" not in self.log(), self.log()

    def stop(self):
        """SIGTERM drains and ends with status 0."""
        self.process.send_signal(signal.SIGTERM)
        self.wait()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE_S)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, kind, value, traceback):
        if kind:
            self.kill()
            print(f"--- log of vblkd {' '.join(self.options)}\n{self.log()}")
        elif self.process.poll() is None:
            self.stop()


def refused(*options, status=1, words="", env=None):
    """vblkd ends by itself with one line on stderr that holds `words`."""
    result = subprocess.run([os.environ["VBLKD"], *map(str, options)], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=DEADLINE_S, env=env)
    lines = [line for line in result.stderr.splitlines() if "continuing without tracing" not in line]
    assert result.returncode == status, f"{options}: status {result.returncode}: {result.stderr}"
    assert len(lines) == 1 and lines[0].startswith("vblkd: ") and words in lines[0], f"{options}: {result.stderr!r}"
    assert result.stdout == "", result.stdout
    return lines[0]


def load_command(socket_path, *arguments):
    arguments = [str(argument) for argument in arguments]
    words = [arguments.pop(0)] if arguments and not arguments[0].startswith("-") else []
    return [os.environ["VBLK_LOAD"], *words, f"--socket-path={socket_path}", *arguments]


def load(socket_path, *arguments, status=0):
    """Run vblk-load to its end; the report as a dictionary."""
    result = subprocess.run(load_command(socket_path, *arguments, "--json"), stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=DEADLINE_S * 2)
    assert result.returncode == status, f"{result.args}: status {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert "Sanitizer" not in result.stderr, result.stderr
    return json.loads(result.stdout) if result.stdout else None


class BackgroundLoad:
    """vblk-load that runs beside the test; killed if it is still there at the end."""

    def __init__(self, socket_path, *arguments):
        self.process = subprocess.Popen(load_command(socket_path, *arguments), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self):
        """(status, stdout, stderr)"""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Recorder:
    """vblkscope record of a process that runs already, until that ends, or (None) of all that start from now on."""

    def __init__(self, output, pid, *options):
        self.pid = pid
        of = [] if pid is None else [f"--pid={pid}"]
        self.process = subprocess.Popen([os.environ["VBLKSCOPE"], "record", f"--output={output}", *of, *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_until_recording(self):
        said = []
        for line in self.process.stdout:
            said.append(line)
            if "recording" in line:
                return
        raise AssertionError(f"the recorder ended: {''.join(said)}")

    def finish(self):
        if self.pid is None:
            self.process.send_signal(signal.SIGINT)
        try:
            out, _ = self.process.communicate(timeout=3 * DEADLINE_S)  # beyond the recorder's own patience
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"the recorder does not end; it said: {late.output}") from late
        assert self.process.returncode == 0, out

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def thread_seconds(pid):
    """{thread name: processor seconds used, to the nanosecond}; names of vblkd's threads are distinct enough."""
    result = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm") as comm, open(f"/proc/{pid}/task/{task}/schedstat") as schedstat:
                name, used_ns = comm.read().rstrip("\n"), int(schedstat.read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        key = "main" if int(task) == pid else name
        result[key] = result.get(key, 0) + used_ns / 1e9
    return result


def eventfd_count(pid):
    count = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            count += "eventfd" in os.readlink(entry.path)
        except FileNotFoundError:
            pass  # closed meanwhile
    return count


def make_image(path, size_bytes):
    with open(path, "wb") as image:
        image.truncate(size_bytes)
    return path


def _end_by_signal(number, frame):
    raise SystemExit(f"ended by signal {number}")


def main(tests):
    """Run each test with a temporary directory of its own."""
    signal.signal(signal.SIGTERM, _end_by_signal)  # the build's timeout: unwind, so that nothing stays behind
    only = sys.argv[1:]
    for test in tests:
        if only and test.__name__ not in only:
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="vblkd-", dir="/var/tmp") as directory:
            test(pathlib.Path(directory))
        print(f"ok {test.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
