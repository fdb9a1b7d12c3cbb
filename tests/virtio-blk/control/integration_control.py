#!/usr/bin/env python3
"""Goal: the control socket tells what vblkd does and changes it, under load, for many clients at once and against hostile ones.

Method: vblkd under vblk-load; every answer is held against schema.json, made strict (no key that it does not document).
Totals are compared with what the front end counted; a drain under verified writes must hold still and lose nothing; a hundred
disks come and go without a descriptor left behind; clients send rubbish, endless lines, and read no answers while others are
answered. If it fails: whoever operates the device is told wrong things, or can hang it.

Usage: integration_control.py [TEST...]
"""

import copy
import json
import os
import pathlib
import select
import socket
import stat
import subprocess
import sys
import threading

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is missing (apt-get install python3-jsonschema)")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from serving import DEADLINE_S, BackgroundLoad, Server, load, main, make_image, wait_for  # noqa: E402

SIZE = 4 << 20
SCHEMA = json.loads(pathlib.Path(os.environ["CONTROL_SCHEMA"]).read_text())


def strict(value):
    """Every object has exactly the keys that the schema names."""
    if isinstance(value, dict):
        if "properties" in value and value.get("type") == "object":
            value.setdefault("additionalProperties", False)
        for inner in value.values():
            strict(inner)
    elif isinstance(value, list):
        for inner in value:
            strict(inner)
    return value


STRICT = strict(copy.deepcopy(SCHEMA))


def validate(value, place):
    jsonschema.Draft202012Validator({**STRICT, "$ref": f"#/$defs/{place}"}).validate(value)


class Refused(Exception):
    pass


class Client:
    """One connection; each answer is validated."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")
        self.count = 0

    def ask(self, command, **arguments):
        self.count += 1
        request = {"command": command, "arguments": {name.replace("__", "-"): value for name, value in arguments.items()},
                   "id": self.count}
        validate(request, "request")
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        return self.answer(command, self.count)

    def answer(self, command=None, number=None):
        line = self.file.readline()
        assert line.endswith(b"\n"), f"{command}: no whole answer: {line!r}"
        answer = json.loads(line)
        # The outer form by the schema as it is: what "return" holds is the command's.
        jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/answer"}).validate(answer)
        assert answer.get("id") == number, answer
        if "error" in answer:
            raise Refused(answer["error"]["message"])
        if command:
            validate(answer["return"], f"return/{command}")
        return answer["return"]

    def refused(self, command, words, **arguments):
        try:
            answer = self.ask(command, **arguments)
        except Refused as error:
            assert words in str(error), f"{command}: {error}"
            return
        raise AssertionError(f"{command}: {answer} instead of an error")

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def controlled(directory, *options, disk="null:1G", iothreads=2, queues=2):
    # A pool that was asked for is used: without, a null disk's requests take no coroutine.
    server = Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", "--name=disk0", "--coroutine-pool=batched",
                    f"--num-queues={queues}", f"--iothreads={iothreads}", f"--control-path={directory}/control", *options)
    server.control = f"{directory}/control"
    return server


def fd_count(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def pops(client):
    return client.ask("stats")["disks"][0]["pops"]


def every_answer_is_as_documented(directory):
    with controlled(directory) as server, Client(server.control) as client:
        assert stat.S_IMODE(os.stat(server.control).st_mode) == 0o600
        assert client.ask("status")["disks"][0]["state"] == "stopped"
        told = {command["name"] for command in client.ask("commands")["commands"]}
        assert told == set(SCHEMA["$defs"]["arguments"]) == set(SCHEMA["$defs"]["return"])
        with BackgroundLoad(server.socket_path, "--queues=2", "--rw=randrw", "--runtime=60"):
            wait_for(lambda: pops(client) > 1000, DEADLINE_S, "requests are counted")
            status = client.ask("status")
            assert status["pid"] == server.process.pid and status["faults"] == []
            disk = status["disks"][0]
            assert disk["connected"] and disk["state"] == "started" and disk["running_queues"] == 2, disk
            assert "MQ" in disk["feature_names"] and disk["memory_regions"] >= 1, disk
            for command in ("stats", "pool", "locks", "requests"):
                client.ask(command)
            queues = client.ask("queues")["queues"]
            assert [queue["queue"] for queue in queues] == [0, 1] and all(queue["running"] for queue in queues), queues
            loops = {loop["name"]: loop for loop in client.ask("loops")["loops"]}
            assert set(loops) == {"main", "iothread0", "iothread1"}, loops
            for index in range(2):
                handlers = [handler for handler in loops[f"iothread{index}"]["handlers"] if handler["role"] == "host_notifier"]
                assert [handler["queue"] for handler in handlers] == [index] and handlers[0]["dispatches"] > 0, handlers
            names = {thread["name"] for thread in client.ask("pool")["threads"]}
            assert {"iothread0", "iothread1"} <= names, names
        assert set(client.ask("set-poll", max_ns=0)["loops"]) == {"iothread0", "iothread1"}
        assert client.ask("set-poll", max_ns=5000, loop="iothread1")["loops"] == ["iothread1"]
        loops = {loop["name"]: loop["poll_max_ns"] for loop in client.ask("loops")["loops"]}
        assert loops == {"main": 0, "iothread0": 0, "iothread1": 5000}, loops
        client.refused("set-poll", "there is no loop", max_ns=0, loop="nowhere")
        if status["tracing"]["loaded"]:
            client.ask("trace-baseline")
        else:
            client.refused("trace-baseline", "nothing can be traced")
    assert not os.path.exists(server.control), "the control socket is removed at the end"


def totals_are_what_the_front_end_counted(directory):
    with controlled(directory) as server, Client(server.control) as client:
        result = load(server.socket_path, "--queues=2", "--number-ios=5000", "--rw=randrw", "--bs=4K")
        disk = client.ask("stats")["disks"][0]
        requests = disk["requests"]
        assert requests["read"]["requests"] + requests["write"]["requests"] == result["total_ios"] == 5000, disk
        assert requests["read"]["bytes"] + requests["write"]["bytes"] == 5000 * 4096, disk
        assert disk["pops"] == disk["completions"] and disk["in_flight"] == 0, disk
        for key in ("kicks", "pops", "interrupts"):
            assert disk[key] == sum(queue[key] for queue in disk["queues"]), key
        threads = client.ask("pool")["threads"]
        assert sum(thread["takes"] for thread in threads if thread["name"].startswith("iothread")) >= 5000, threads


def a_drain_holds_still_and_loses_nothing(directory):
    disk = make_image(directory / "disk", SIZE)
    with controlled(directory, disk=disk) as server, Client(server.control) as client, Client(server.control) as other:
        with BackgroundLoad(server.socket_path, "verify", "--queues=2", "--iodepth=32", "--passes=8", "--json") as verify:
            for _ in range(5):
                before = pops(client)
                wait_for(lambda: pops(client) > before + 100, DEADLINE_S, "requests go on")
                client.ask("drain")
                held = pops(client)
                other.refused("drain", "is drained already")
                for _ in range(20):
                    assert other.ask("requests")["total"] == 0
                    assert all(not queue["attached"] for queue in other.ask("queues")["queues"])
                disk_status = other.ask("status")["disks"][0]
                assert disk_status["drain"] == "drained" and disk_status["in_flight"] == 0, disk_status
                assert pops(other) == held, "something began in a drained disk"
                assert other.ask("resume")["was_drained"]
            status, out, err = verify.finish()
            assert status == 0, err
            assert json.loads(out)["mismatch_count"] == 0, out
        assert not client.ask("resume")["was_drained"]
        # Drained by a client that has left; a front end that comes and goes meanwhile; and the end of the process.
        with Client(server.control) as leaving:
            leaving.ask("drain")
        with BackgroundLoad(server.socket_path, "--queues=2", "--number-ios=100") as waiting:
            wait_for(lambda: client.ask("status")["disks"][0]["state"] == "started", DEADLINE_S, "it starts drained")
            assert client.ask("status")["disks"][0]["in_flight"] == 0
            client.ask("resume")
            assert waiting.finish()[0] == 0
        client.ask("drain")
        server.stop()


def queues_move_under_load(directory):
    disk = make_image(directory / "disk", SIZE)
    with controlled(directory, disk=disk, iothreads=3) as server, Client(server.control) as client:
        with BackgroundLoad(server.socket_path, "verify", "--queues=2", "--iodepth=32", "--passes=8", "--json") as verify:
            wait_for(lambda: pops(client) > 100, DEADLINE_S, "requests go on")
            for turn in range(18):
                queue, iothread = turn % 2, turn % 3
                client.ask("move-queue", queue=queue, iothread=iothread)
                told = {one["queue"]: one for one in client.ask("queues")["queues"]}
                if queue in told and told[queue]["running"]:
                    assert told[queue]["loop"] == f"iothread{iothread}", told
            status, out, err = verify.finish()
            assert status == 0, err
            assert json.loads(out)["mismatch_count"] == 0, out
        client.refused("move-queue", "no IOThread 3", queue=0, iothread=3)
        client.refused("move-queue", "no queue 2", queue=2, iothread=0)
        # One that is drained moves, too.
        client.ask("drain")
        client.ask("move-queue", queue=0, iothread=1)
        client.ask("resume")
        load(server.socket_path, "--queues=2", "--number-ios=100")


def a_resize_is_seen(directory):
    disk = make_image(directory / "disk", SIZE)
    with controlled(directory, disk=disk) as server, Client(server.control) as client:
        with BackgroundLoad(server.socket_path, "--queues=2", "--runtime=60"):
            wait_for(lambda: pops(client) > 100, DEADLINE_S, "requests go on")
            assert client.ask("resize", size_bytes=2 * SIZE)["size_bytes"] == 2 * SIZE
            assert os.path.getsize(disk) == 2 * SIZE
            with open(disk, "r+b") as image:
                image.truncate(3 * SIZE)
            assert client.ask("resize")["size_bytes"] == 3 * SIZE, "the size is read again"
            assert client.ask("status")["disks"][0]["size_bytes"] == 3 * SIZE
            client.refused("resize", "block size", size_bytes=SIZE + 100)
        wait_for(lambda: not client.ask("status")["disks"][0]["connected"], DEADLINE_S, "the front end has left")
        # A front end that comes now finds the new end: its last block is there.
        result = load(server.socket_path, "verify", "--queues=1", "--bs=64K")
        assert result["checked_count"] == 3 * SIZE // 65536 and result["mismatch_count"] == 0, result


def open_requests_are_listed_and_a_failed_disk_resumed(directory):
    with controlled(directory, "--inject=op=read,error=100,count=8,skip=20", "--on-disk-error=stop") as server, \
         Client(server.control) as client:
        with BackgroundLoad(server.socket_path, "--queues=2", "--iodepth=4", "--rw=randread", "--number-ios=500",
                            "--json") as reader:
            # The disk fails, and holds all that the front end has out.
            wait_for(lambda: client.ask("requests")["total"] == 8 and client.ask("status")["disks"][0]["paused"], DEADLINE_S,
                     "every request is held")
            answer = client.ask("requests", limit=3)
            assert len(answer["requests"]) == 3 and answer["total"] == 8, answer
            requests = client.ask("requests", device="disk0")["requests"]
            ages = [request["age_ns"] for request in requests]
            assert ages == sorted(ages, reverse=True), ages
            assert {request["queue"] for request in requests} == {0, 1}, requests
            for request in requests:
                assert request["type"] == "read" and request["size_bytes"] == 4096 and request["device"] == "disk0", request
                assert request["offset_bytes"] % 4096 == 0 and request["offset_bytes"] < 1 << 30, request
            client.refused("requests", "there is no disk of that name", device="disk1")
            # They would have the driver told: the load would end with errors.
            client.refused("drain", "is paused")
            client.refused("resize", "is paused", size_bytes=1 << 31)
            client.refused("move-queue", "is paused", queue=0, iothread=1)
            retried = 0
            while reader.process.poll() is None:
                retried += client.ask("resume")["retried"]
            status, out, err = reader.finish()
            assert status == 0 and json.loads(out)["total_ios"] == 500 and retried >= 8, (status, out, err, retried)
        read = client.ask("stats")["disks"][0]["requests"]["read"]
        assert read["requests"] == 500 and read["errors"] == 0, read


def a_hundred_disks_come_and_go(directory):
    # No disk at the start; the settings that all share are the options'.
    arguments = ("--num-queues=2", "--block-size=4096", f"--control-path={directory}/control")
    server = Server(directory, *arguments, sockets=("control",))
    server.ready_words = "control socket answers"
    with server, Client(server.sockets[0]) as client:
        client.refused("drain", "there is no disk")
        client.refused("add-disk", "num-queues", blk__file="null:1M", socket__path=f"{directory}/s", num__queues=65)
        client.refused("add-disk", "missing", blk__file=f"{directory}/missing", socket__path=f"{directory}/s")
        client.ask("add-disk", blk__file="null:1M", socket__path=f"{directory}/warm")
        client.ask("remove-disk")
        before = fd_count(server)
        for index in range(100):
            path = f"{directory}/s{index}"
            name = client.ask("add-disk", blk__file="null:1M", socket__path=path, name=f"disk{index}")["device"]
            assert name == f"disk{index}"
        client.refused("add-disk", "of that name already", blk__file="null:1M", socket__path=f"{directory}/s", name="disk7")
        client.refused("add-disk", "serves this socket", blk__file="null:1M", socket__path=f"{directory}/s7", name="other")
        disks = client.ask("status")["disks"]
        assert [disk["name"] for disk in disks] == [f"disk{index}" for index in range(100)]
        assert all(disk["queues"] == 2 and disk["block_size_bytes"] == 4096 for disk in disks)
        client.refused("drain", "which disk?")
        client.refused("drain", "there is no disk of that name", device="disk100")
        for index in (0, 50, 99):
            load(f"{directory}/s{index}", "--number-ios=50", "--bs=4K")
        # One that is in use is removed only by force; others go on meanwhile.
        with BackgroundLoad(f"{directory}/s1", "--runtime=60", "--bs=4K") as victim, \
             BackgroundLoad(f"{directory}/s2", "--number-ios=2000", "--bs=4K") as other:
            wait_for(lambda: next(disk for disk in client.ask("status")["disks"] if disk["name"] == "disk1")["connected"],
                     DEADLINE_S, "it is connected")
            client.refused("remove-disk", "a front end is connected", device="disk1")
            client.ask("remove-disk", device="disk1", force=True)
            status, _, err = victim.finish()
            assert status == 1, err
            assert other.finish()[0] == 0
        wait_for(lambda: not any(disk["connected"] for disk in client.ask("status")["disks"]), DEADLINE_S, "all have left")
        for index in range(100):
            if index != 1:
                if index % 10 == 3:
                    client.ask("drain", device=f"disk{index}")
                client.ask("remove-disk", device=f"disk{index}")
            assert not os.path.exists(f"{directory}/s{index}")
        assert client.ask("status")["disks"] == []
        assert fd_count(server) == before, f"{fd_count(server)} descriptors instead of {before}"


def a_silent_nbd_server_delays_nobody(directory):
    """It accepts and says nothing. Whoever asks meanwhile is answered first, and two who add one name get one disk."""
    with socket.socket(socket.AF_UNIX) as server, controlled(directory) as device, Client(device.control) as adding, \
            Client(device.control) as client:
        server.bind(f"{directory}/nbd")
        server.listen()
        disk = {"blk-file": f"nbd+unix:///?socket={directory}/nbd", "socket-path": f"{directory}/silent", "name": "silent"}
        adding.socket.sendall(json.dumps({"command": "add-disk", "arguments": disk}).encode() + b"\n")
        silent, _ = server.accept()
        assert [one["name"] for one in client.ask("status")["disks"]] == ["disk0"]
        client.ask("add-disk", blk__file="null:1M", socket__path=f"{directory}/other", name="silent")
        assert not select.select([adding.socket], [], [], 0)[0], "the silent server held up whoever asked after it"
        silent.close()
        server.close()
        try:
            adding.answer()
        except Refused as error:
            assert "silent" in str(error) or "nbd" in str(error), error
        else:
            raise AssertionError("a disk whose server never spoke was added")
        assert [one["name"] for one in client.ask("status")["disks"]] == ["disk0", "silent"]


def twenty_clients_at_once(directory):
    problems = []

    def work(number, path):
        try:
            with Client(path) as client:
                for turn in range(15):
                    client.ask(("status", "stats", "pool", "loops", "queues", "locks", "requests")[(number + turn) % 7])
                    try:
                        client.ask("drain" if (number + turn) % 5 == 0 else "resume")
                    except Refused as error:
                        if "is drained already" not in str(error) and "was resumed" not in str(error):
                            raise
        except BaseException as error:
            problems.append(f"client {number}: {error!r}")

    with controlled(directory) as server:
        with BackgroundLoad(server.socket_path, "--queues=2", "--runtime=600") as front_end:
            threads = [threading.Thread(target=work, args=(number, server.control)) for number in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(2 * DEADLINE_S)
            assert not problems and not any(thread.is_alive() for thread in threads), problems
            with Client(server.control) as client:
                client.ask("resume")
                before = pops(client)
                wait_for(lambda: pops(client) > before, DEADLINE_S, "the disk goes on")
            assert front_end.process.poll() is None


def flood(path):
    """A client that asks and asks and reads no answer, until it cannot send any more."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.setblocking(False)
    request = b'{"command": "commands"}\n' * 100
    try:
        while True:
            client.send(request)
    except BlockingIOError:
        return client


def hostile_clients_harm_nobody(directory):
    with controlled(directory) as server, Client(server.control) as client:
        client.ask("status")
        before = fd_count(server)
        rubbish = socket.socket(socket.AF_UNIX)
        rubbish.settimeout(DEADLINE_S)
        rubbish.connect(server.control)
        rubbish.sendall(b"\x00\xff\n\n   \n[[[[[[[[[[[[\n{\"command\": \"status\", \n" + b"[" * 60000 + b"\n" + b'{"command": 1}\n')
        answers = rubbish.makefile("rb")
        for _ in range(5):
            assert "error" in json.loads(answers.readline())
        # An endless line costs one answer and no memory; what follows it is read.
        endless = b"x" * 65536
        for _ in range(64):
            rubbish.sendall(endless)
        assert "longer than 65536 bytes" in json.loads(answers.readline())["error"]["message"]
        rubbish.sendall(b"\n" + b'{"command": "queues"}\n')
        assert "return" in json.loads(answers.readline())
        # A half line, and a whole one without end; both are answered when the client has shut down its side.
        for text, key in ((b'{"command": "que', "error"), (b'{"command": "queues"}', "return")):
            half = socket.socket(socket.AF_UNIX)
            half.settimeout(DEADLINE_S)
            half.connect(server.control)
            half.sendall(text)
            half.shutdown(socket.SHUT_WR)
            with half.makefile("rb") as file:
                assert key in json.loads(file.readline())
                assert file.readline() == b""
            half.close()
        # In the middle of a command.
        leaving = socket.socket(socket.AF_UNIX)
        leaving.connect(server.control)
        leaving.sendall(b'{"command": "drain"}\n' * 50 + b'{"command": "resume"}\n')
        leaving.close()
        silent = [flood(server.control) for _ in range(3)]
        with BackgroundLoad(server.socket_path, "--queues=2", "--number-ios=3000") as front_end:
            for _ in range(20):
                client.ask("status")
            client.ask("resume")
            assert front_end.finish()[0] == 0, "the disk goes on"
        # More than are served are told so, and those who are there stay.
        crowd = []
        for _ in range(100):
            crowd.append(socket.socket(socket.AF_UNIX))
            crowd[-1].settimeout(DEADLINE_S)
            crowd[-1].connect(server.control)
        with crowd[-1].makefile("rb") as file:
            assert "too many clients" in json.loads(file.readline())["error"]["message"]
            assert file.readline() == b""
        client.ask("status")
        answers.close()
        for one in [rubbish, *silent, *crowd]:
            one.close()
        wait_for(lambda: fd_count(server) == before, DEADLINE_S, "descriptors of clients that left are closed")
        # A stop with clients that wait, flood and are idle.
        silent = flood(server.control)
        server.stop()
        silent.close()


def paths_in_use(directory):
    with controlled(directory) as server:
        second = Server(directory, f"--socket-path={directory}/socket2", "--blk-file=null:1M", f"--control-path={server.control}")
        try:
            second.start()
        except AssertionError as error:
            assert "another process serves this socket" in str(error), error
        else:
            second.kill()
            raise AssertionError("two processes answer at one path")
        assert second.process.wait(DEADLINE_S) == 1
        server.kill()
        assert os.path.exists(server.control), "a killed process leaves its socket"
    with controlled(directory) as successor, Client(successor.control) as client:
        client.ask("status")


def a_service_managers_socket(directory):
    """Passed as systemd passes sockets: descriptors from 3 on, with names; ours is the one called control."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{directory}/control")
    listener.listen()
    # LISTEN_PID is the process that gets them: the shell's, which becomes vblkd.
    command = ["sh", "-c", 'exec 3<&"$1"; shift; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=control exec "$@"', "sh",
               str(listener.fileno()), os.environ["VBLKD"], f"--socket-path={directory}/socket", "--blk-file=null:1M",
               "--name=disk0"]
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, pass_fds=[listener.fileno()])
    listener.close()
    try:
        with Client(directory / "control") as client:
            assert client.ask("status")["disks"][0]["name"] == "disk0"
        process.terminate()
        assert process.wait(DEADLINE_S) == 0, (directory / "log").read_text()
        assert os.path.exists(directory / "control"), "the manager's socket is the manager's"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


main([every_answer_is_as_documented, totals_are_what_the_front_end_counted, a_drain_holds_still_and_loses_nothing,
      queues_move_under_load, a_resize_is_seen,
      open_requests_are_listed_and_a_failed_disk_resumed,
      a_hundred_disks_come_and_go, a_silent_nbd_server_delays_nobody, twenty_clients_at_once, hostile_clients_harm_nobody, paths_in_use,
      a_service_managers_socket])
