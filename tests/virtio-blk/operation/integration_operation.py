#!/usr/bin/env python3
"""Goal: vblkd runs as a service: on sockets that its manager opened, without privileges, with few system calls, and can
be traced all the same.

Method: this test plays the service manager (descriptor 3 and up, LISTEN_*, NOTIFY_SOCKET), looks at what the kernel says of
the process, loads it with vblk-load, and records it with LTTng. If it fails: a unit that works by hand does not work
under systemd, or the confinement hides a device from its tracer.

Usage: integration_operation.py [TEST...]
"""

import json
import os
import pwd
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import DEADLINE_S, Recorder, Server, load, main, make_image, refused, wait_for  # noqa: E402

SIZE = 16 << 20
SANITIZED = "SANITIZED" in os.environ  # there --sandbox is off unless asked for, and cannot be on


class Manager:
    """A service manager's side of one vblkd: sockets by name, and what it is told."""

    def __init__(self, directory, **paths):
        self.directory = directory
        self.listening = {}
        for name, path in paths.items():
            self.listening[name] = socket.socket(socket.AF_UNIX)
            self.listening[name].bind(str(path))
            self.listening[name].listen()
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ear.bind(str(directory / "notify"))
        self.ear.settimeout(DEADLINE_S)
        self.process = None

    def start(self, *options):
        log = open(self.directory / "log", "ab")
        fds = [listener.fileno() for listener in self.listening.values()]
        # The shell becomes vblkd, so that LISTEN_PID is its own; descriptors move to 3 and up.
        moves = " ".join(f"{3 + index}<&{fd}" for index, fd in enumerate(fds))
        environment = dict(os.environ, LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=":".join(self.listening),
                           NOTIFY_SOCKET=str(self.directory / "notify"), WATCHDOG_USEC="20000000")
        environment.pop("WATCHDOG_PID", None)
        self.process = subprocess.Popen(
            ["bash", "-c", f'export LISTEN_PID=$$; exec {moves} "$VBLKD" "$@"', "bash", *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=fds, env=environment)
        log.close()

    def heard(self):
        return self.ear.recv(4096).decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for end in (*self.listening.values(), self.ear):
            end.close()


def status_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)


def sockets_come_from_the_manager(directory):
    disks = [make_image(directory / f"image{i}", SIZE) for i in range(2)]
    # In another order than the disks are named, and high enough that the shell's moves do not overwrite one another.
    with Manager(directory, b=directory / "b.sock", a=directory / "a.sock") as manager:
        manager.start(f"--disk=name=a,blk-file={disks[0]},serial=first", f"--disk=name=b,blk-file={disks[1]},serial=second")
        assert manager.heard() == "READY=1\nSTATUS=serving 2 disks"
        assert manager.heard() == "WATCHDOG=1"
        for name in "ab":
            result = load(directory / f"{name}.sock", "verify", "--size=1M")
            assert result["mismatch_count"] == 0, result
        # Each wrote to the image of its name.
        for name, image in zip("ab", disks):
            load(directory / f"{name}.sock", "--rw=write", "--bs=4K", "--number-ios=1")
        manager.process.send_signal(signal.SIGTERM)
        while (notice := manager.heard()) == "WATCHDOG=1":
            pass
        assert notice.startswith("STOPPING=1"), notice
        assert manager.process.wait(DEADLINE_S) == 0, (directory / "log").read_text()
        # The manager's sockets are the manager's: the paths stay.
        assert (directory / "a.sock").exists() and (directory / "b.sock").exists()


def the_only_socket_is_the_only_disks(directory):
    disk = make_image(directory / "image", SIZE)
    with Manager(directory, control=directory / "control.sock", any=directory / "disk.sock") as manager:
        manager.start(f"--blk-file={disk}")
        assert manager.heard().startswith("READY=1")
        load(directory / "disk.sock", "--number-ios=100")
        manager.process.send_signal(signal.SIGTERM)
        assert manager.process.wait(DEADLINE_S) == 0, (directory / "log").read_text()


def privileges_are_gone(directory):
    disk = make_image(directory / "image", SIZE)
    sandbox = [] if SANITIZED else ["--sandbox=on"]
    with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", *sandbox) as server:
        status = status_of(server.process.pid)
        assert status["NoNewPrivs"] == "1", status
        assert SANITIZED or status["Seccomp"] == "2", status
        if os.getuid() != 0:
            assert int(status["CapPrm"], 16) == 0, status
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(directory, nobody.pw_uid, nobody.pw_gid)
        os.chown(disk, nobody.pw_uid, nobody.pw_gid)
        with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", "--user=nobody",
                    *sandbox) as server:
            status = status_of(server.process.pid)
            assert set(status["Uid"].split()) == {str(nobody.pw_uid)}, status
            assert set(status["Gid"].split()) == {str(nobody.pw_gid)}, status
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                assert int(status[name], 16) == 0, (name, status)
            result = load(server.socket_path, "verify", "--size=4M", "--queues=2")
            assert result["mismatch_count"] == 0, result
        os.chmod(disk, 0)
        os.chown(disk, 0, 0)
        refused(f"--socket-path={directory}/socket", f"--blk-file={disk}", "--user=nobody", words="cannot open disk")
    refused("--socket-path=/nowhere", "--blk-file=null:1G", "--user=no-such-user", words="no such user")
    refused("--socket-path=/nowhere", "--blk-file=null:1G", "--sandbox=maybe", status=2, words="auto, on or off")


def a_confined_device_can_be_traced(directory):
    options = [] if SANITIZED else ["--sandbox=on"]
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(directory, nobody.pw_uid, nobody.pw_gid)
        options.append("--user=nobody")
    trace = directory.parent / f"{directory.name}-trace"
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--num-queues=1", *options) as server:
        assert "continuing without tracing" not in server.log(), server.log()
        recorder = Recorder(trace, server.process.pid, "--events=core,request")
        try:
            recorder.wait_until_recording()
            load(server.socket_path, "--number-ios=1000")
            server.stop()
            recorder.finish()
            result = subprocess.run([os.environ["VBLKSCOPE"], "analyze", "--format=json", "--loop-hog=5s", "--slow-p999=5s", trace],
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S)
            report = json.loads(result.stdout)
            assert result.returncode == 0, report["findings"]
            # Requests, and the baseline that says what there was before the recording.
            assert report["trace"]["event_count"] > 4000, report["trace"]
            assert [queue["index"] if "index" in queue else queue for queue in report["queues"]], report["queues"]
        finally:
            recorder.kill()
            subprocess.run(["rm", "-rf", trace], check=True)


main([sockets_come_from_the_manager, the_only_socket_is_the_only_disks, privileges_are_gone,
      a_confined_device_can_be_traced])
