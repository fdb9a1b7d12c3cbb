"""A qemu-storage-daemon that serves one disk, and vblk-load run against it. For the integration tests beside it, and benchmarks."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from waiting import is_listening, wait_for  # noqa: E402  (tests/waiting.py)

DEADLINE_S = 60


def require_daemon():
    if not shutil.which("qemu-storage-daemon"):
        print("qemu-storage-daemon is missing (apt-get install qemu-system-common)")
        sys.exit(77)


class StorageDaemon:
    """Serves `image` on `socket_path` from start() to stop() or kill(); ends with the test on every path out.

    image None: a `blockdev` that has no file. iothread: the options of an IOThread of its own ("" for its defaults)."""

    def __init__(self, directory, image, queues=2, export="writable=on", blockdev="driver=file", iothread=None):
        self.socket_path = str(pathlib.Path(directory) / "socket")
        file = "" if image is None else f",filename={image}"
        own_thread = [] if iothread is None else ["--object", f"iothread,id=thread{iothread and ','}{iothread}"]
        self.arguments = [
            "qemu-storage-daemon", *own_thread,
            "--blockdev", f"{blockdev},node-name=disk{file}",
            "--export", f"type=vhost-user-blk,id=export,node-name=disk,addr.type=unix,addr.path={self.socket_path},"
                        f"{export},num-queues={queues}{'' if iothread is None else ',iothread=thread'}",
        ]
        self.process = None

    def start(self):
        if os.path.exists(self.socket_path):
            os.unlink(self.socket_path)
        self.process = subprocess.Popen(self.arguments)
        wait_for(lambda: is_listening(self.socket_path) or self.process.poll() is not None, DEADLINE_S,
                 "qemu-storage-daemon listens")
        assert self.process.poll() is None, "qemu-storage-daemon ended at its start"

    def end(self, number):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(DEADLINE_S)
        self.process = None

    def stop(self):
        self.end(signal.SIGTERM)

    def kill(self):
        self.end(signal.SIGKILL)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()


class Load:
    """Runs the vblk-load under test."""

    def __init__(self, program, socket_path):
        self.program = program
        self.socket_path = socket_path

    def command(self, *arguments):
        arguments = list(arguments)
        words = [arguments.pop(0)] if arguments and not arguments[0].startswith("-") else []
        return [self.program, *words, f"--socket-path={self.socket_path}", *arguments]

    def run(self, *arguments, status=0):
        """Returns (stdout, stderr); fails with both unless the exit status is `status`."""
        result = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=DEADLINE_S * 2, check=False)
        if result.returncode != status:
            raise AssertionError(f"{result.args}: exit status {result.returncode} instead of {status}\n"
                                 f"{result.stdout}\n{result.stderr}")
        if status != 0:
            assert len(result.stderr.splitlines()) == 1, f"a failure is one line: {result.stderr!r}"
            assert result.stderr.startswith("vblk-load: "), result.stderr
        else:
            assert result.stderr == "", f"nothing is said on stderr when all is well: {result.stderr!r}"
        return result.stdout, result.stderr

    def json(self, *arguments, status=0):
        return json.loads(self.run(*arguments, "--json", status=status)[0])


def make_image(path, size_bytes):
    with open(path, "wb") as image:
        image.truncate(size_bytes)


def main(tests):
    """Run each test with a temporary directory and the program's path, the script's first argument."""
    program = sys.argv[1]
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="vblk-load-") as directory:
            test(pathlib.Path(directory), program)
        print(f"ok {test.__name__}")
