#!/usr/bin/env python3
"""Goal: `vblkscope ctl` shows a running device to people and programs, and says in one line what is wrong when it cannot.

Method: the program against a running vblkd, each of its commands as text and as JSON, with mistakes; against sockets that nobody
serves, or that somebody else serves who is silent, babbles or hangs up; and its completion in bash. If it fails: an operator is left alone
with a device that he cannot ask.

Usage: integration_ctl.py COMPLETION
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from waiting import is_listening, wait_for  # noqa: E402

DEADLINE_S = 60
COMPLETION = sys.argv[1]


def ctl(*words, status=0, err=""):
    result = subprocess.run([os.environ["VBLKSCOPE"], "ctl", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=DEADLINE_S)
    assert result.returncode == status, f"{words}: status {result.returncode}: {result.stdout}{result.stderr}"
    lines = result.stderr.splitlines()
    if err:
        assert len(lines) == 1 and lines[0].startswith("vblkscope ctl: ") and err in lines[0], f"{words}: {result.stderr!r}"
        assert result.stdout == "", result.stdout
    else:
        assert not lines, f"{words}: {result.stderr}"
    return result.stdout


@contextlib.contextmanager
def device(directory):
    path = f"{directory}/control"
    with open(f"{directory}/log", "wb") as log:
        process = subprocess.Popen([os.environ["VBLKD"], f"--socket-path={directory}/socket", "--blk-file=null:16M",
                                    "--name=disk0", f"--control-path={path}"], stdin=subprocess.DEVNULL, stderr=log)
    try:
        wait_for(lambda: is_listening(path) or process.poll() is not None, DEADLINE_S, "vblkd answers")
        yield path
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        print(pathlib.Path(directory, "log").read_text(), end="")


def every_command_is_shown(directory):
    with device(directory) as path:
        commands = [command["name"] for command in json.loads(ctl("--json", path, "commands"))["commands"]]
        assert all(f"\n{name} " in "\n" + ctl(path, "commands") for name in commands), commands
        words = {
            "status": "DISK ", "stats": "READS", "pool": "mappings_left", "loops": "iothread0: handlers", "locks": "TAKEN",
            "requests": "total ", "drain": "disk0", "resume": "was_drained              yes",
        }
        for name, expected in words.items():
            text = ctl(path, name)
            assert expected in text, f"{name}: {text}"
            assert all(line == line.rstrip() for line in text.splitlines()), text
        assert ctl(path, "queues") == "", "no front end has spoken of a queue"
        for name in ("status", "stats", "pool", "loops", "queues", "locks", "requests"):
            json.loads(ctl("--json", path, name))
        added = ctl(path, "add-disk", f"socket-path={directory}/s1", "blk-file=null:2M", "name=more", "num-queues=3",
                    "read-only=on")
        assert "more" in added, added
        disks = {disk["name"]: disk for disk in json.loads(ctl("--json", path, "status"))["disks"]}
        assert disks["more"]["queues"] == 3 and disks["more"]["read_only"], disks
        assert "2 MiB" in ctl(path, "status")
        ctl(path, "drain", status=1, err="which disk?")
        ctl(path, "remove-disk", "device=more")
        ctl(path, "remove-disk", "device=more", status=1, err="there is no disk of that name")
        ctl(path, "add-disk", status=2, err="add-disk needs socket-path")
        ctl(path, "set-poll", "max_ns=-2", status=1, err="max_ns: must be -1 to")
        ctl(path, "set-poll", "max_ns=soon", status=2, err="max_ns=soon: must be an integer")
        ctl(path, "drain", "devise=disk0", status=2, err="there are: device")
        ctl(path, "stautus", status=2, err="there is no command 'stautus'; there are: commands, status")
        ctl(path, status=2, err="no command given")
        ctl(status=2, err="no socket given")
        ctl("--timeout=-1", path, "status", status=2, err="--timeout")
        ctl("--no-such", path, "status", status=2, err="--no-such")
        complete(path, commands)


def complete(path, commands):
    """What bash offers."""
    script = r"""
. "$1"; shift
COMP_WORDS=(vblkscope "$@"); COMP_CWORD=$#; COMPREPLY=()
_vblkscope
printf '%s\n' "${COMPREPLY[@]}"
"""
    environment = {**os.environ, "PATH": f"{os.path.dirname(os.environ['VBLKSCOPE'])}:{os.environ['PATH']}"}

    def offered(*words):
        result = subprocess.run(["bash", "-c", script, "bash", COMPLETION, *words], capture_output=True, text=True,
                                timeout=DEADLINE_S, env=environment)
        return result.stdout.split()

    assert offered("ctl", path, "") == commands, offered("ctl", path, "")
    assert offered("ctl", path, "re") == ["requests", "resume", "resize", "remove-disk"], offered("ctl", path, "re")
    assert offered("ctl", path, "requests", "") == ["device=", "limit="], offered("ctl", path, "requests", "")
    assert "blk-file=" in offered("ctl", "--json", path, "add-disk", "blk"), offered("ctl", "--json", path, "add-disk", "blk")
    assert offered("ctl", path, "status", "") == []
    assert offered("ctl", path + "-not", "") == []
    assert path in offered("ctl", path[:-3])
    assert "--timeout=" in offered("ctl", "--t")


def sockets_that_nobody_serves(directory):
    ctl(f"{directory}/missing", "status", status=1, err="does vblkd run?")
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{directory}/left")
    left.close()
    ctl(f"{directory}/left", "status", status=1, err=f"{directory}/left: nobody answers there: Connection refused")
    (directory / "file").write_text("")
    ctl(f"{directory}/file", "status", status=1, err="nobody answers there")
    ctl("/" + "x" * 200, "status", status=1, err="107 bytes")


@contextlib.contextmanager
def somebody_else(directory, answers):
    """Answers line by line with what it has, and then hangs up; None: says nothing and stays."""
    path = str(directory / "else")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    stop = threading.Event()

    def serve():
        client, _ = listener.accept()
        with client, client.makefile("rb") as file:
            for answer in answers:
                file.readline()
                if answer is None:
                    stop.wait(DEADLINE_S)
                    return
                client.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield path
    finally:
        stop.set()
        thread.join(DEADLINE_S)
        listener.close()
        os.unlink(path)


def somebody_else_answers(directory):
    commands = b'{"return": {"commands": [{"name": "go", "text": "", "arguments": []}]}}\n'
    for answers, words in (
        ([b""], "ended without an answer"),
        ([b"SSH-2.0-OpenSSH\n"], "is this vblkd's control socket?"),
        ([b'{"hello": 1}\n'], "is this vblkd's control socket?"),
        ([commands], "ended without an answer"),
        ([commands, b'{"error": {"message": "not\\u001b[2J now"}}\n'], "not\\x1b[2J now"),
        ([commands, b'{"retu'], "ended without an answer"),
    ):
        with somebody_else(directory, answers) as path:
            ctl(path, "go", status=1, err=words)
    with somebody_else(directory, [commands, b'{"return": {"a_ns": 1500}}\n']) as path:
        assert ctl(path, "go") == "a_ns                     1.5 us\n"
    with somebody_else(directory, [None]) as path:
        ctl("--timeout=1", path, "go", status=1, err="no answer within 1 s")


for test in (every_command_is_shown, sockets_that_nobody_serves, somebody_else_answers):
    with tempfile.TemporaryDirectory(prefix="vblkscope-ctl-", dir="/var/tmp") as folder:
        test(pathlib.Path(folder))
    print(f"ok {test.__name__}", flush=True)
