#!/usr/bin/env python3
"""Goal: vblkd serves what it is told to serve, refuses the rest in one line, and loses nothing that it acknowledged.

Method: the program itself with vblk-load in front: stamped data over several queues and IOThreads, signals in the middle of
load, sockets that are stale, in use, handed over or fed with rubbish, disks that are locked (by itself and by
qemu-storage-daemon), missing, odd or of no use. If it fails: an operator loses data or time.

Usage: integration_vblkd.py [TEST...]
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time

from serving import (DEADLINE_S, BackgroundLoad, Server, eventfd_count, is_listening, load, make_image, refused,
                     thread_seconds, wait_for)

SIZE = 16 << 20


def verifies_on_every_kind_of_disk(directory):
    disk = make_image(directory / "disk", SIZE)
    for options in (["--cache=writeback"], ["--cache=none"], ["--cache=none", "--block-size=4096", "--poll-max-ns=0"]):
        with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", "--num-queues=2", "--iothreads=2",
                    *options) as server:
            result = load(server.socket_path, "verify", "--queues=2", "--iodepth=32", "--restarts=1")
            assert result["mismatch_count"] == 0 and result["checked_count"] == SIZE // 4096, result
            # Blocks smaller than the disk's, which are read, modified and written; pieces that are bounced.
            block = "--bs=4K" if "--block-size=4096" in options else "--bs=512"
            result = load(server.socket_path, "verify", "--queues=2", block, "--segment-size=512", "--size=1M", "--seed=2")
            assert result["mismatch_count"] == 0, result
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--num-queues=2",
                "--iothreads=2") as server:
        result = load(server.socket_path, "--queues=2", "--number-ios=20000", "--rw=randrw")
        assert result["total_ios"] == 20000, result


def sigterm_keeps_what_was_acknowledged(directory):
    disk = make_image(directory / "disk", SIZE)
    acknowledged = directory / "acknowledged"
    arguments = (f"--socket-path={directory}/socket", f"--blk-file={disk}", "--num-queues=2", "--iothreads=2")
    with Server(directory, *arguments) as server:
        with BackgroundLoad(server.socket_path, "verify", "--write-only", "--passes=1000", "--queues=2",
                            f"--ack-log={acknowledged}") as writer:
            wait_for(lambda: acknowledged.exists() and acknowledged.stat().st_size > 20000, DEADLINE_S,
                     "writes are acknowledged")
            server.stop()
            status, _, err = writer.finish()
            assert status == 1 and "closed the connection" in err, err
        assert not os.path.exists(server.socket_path), "the socket's path is removed at the end"
    # Killed, the path stays, and the next one uses it; so quickly that the kernel may not have let go of the image.
    with Server(directory, *arguments) as server:
        with BackgroundLoad(server.socket_path, "verify", "--write-only", "--passes=1000", "--queues=2",
                            f"--ack-log={acknowledged}") as writer:
            size = acknowledged.stat().st_size
            wait_for(lambda: acknowledged.stat().st_size > size + 20000, DEADLINE_S, "writes are acknowledged")
            server.kill()
            writer.finish()
        assert os.path.exists(server.socket_path)
        with Server(directory, *arguments) as successor:
            result = load(successor.socket_path, "verify", "--read-only", "--queues=2", f"--ack-log={acknowledged}")
            assert result["mismatch_count"] == 0, result


def front_ends_come_and_go(directory):
    disk = make_image(directory / "disk", SIZE)
    with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", "--iothreads=2") as server:
        for _ in range(3):
            with BackgroundLoad(server.socket_path, "--queues=2", "--rw=randrw", "--runtime=60") as front_end:
                wait_for(lambda: "front end connected" in server.log(), DEADLINE_S, "it is connected")
                used = thread_seconds(server.process.pid)["iothread0"]
                wait_for(lambda: thread_seconds(server.process.pid)["iothread0"] > used + 0.05, DEADLINE_S,
                         "the IOThread is at work")
                front_end.process.kill()
            load(server.socket_path, "--queues=2", "--number-ios=100")


def sockets_in_use(directory):
    disk = make_image(directory / "disk", SIZE)
    with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}") as server:
        refused(f"--socket-path={server.socket_path}", "--blk-file=null:1M", words=server.socket_path)
        load(server.socket_path, "--number-ios=10")
    (directory / "file").write_text("not a socket")
    refused(f"--socket-path={directory}/file", "--blk-file=null:1M", words=f"{directory}/file")
    assert (directory / "file").read_text() == "not a socket"
    refused(f"--socket-path={directory}/missing/socket", "--blk-file=null:1M", words="missing/socket")


def disks_that_are_locked(directory):
    disk = make_image(directory / "disk", SIZE)
    with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}"):
        for options in ([], ["--read-only"]):
            refused(f"--socket-path={directory}/other", f"--blk-file={disk}", *options, words="has locked this disk")
    with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", "--read-only") as first, \
         Server(directory, f"--socket-path={directory}/socket2", f"--blk-file={disk}", "--read-only",
                sockets=["socket2"]) as second:
        for server in (first, second):
            load(server.socket_path, "--number-ios=10")
            assert load(server.socket_path, "--rw=randwrite", "--number-ios=1", status=1) is None or True
        refused(f"--socket-path={directory}/other", f"--blk-file={disk}", words="has locked this disk")


class StorageDaemon:
    def __init__(self, directory, disk, read_only):
        self.socket_path = str(directory / "qemu")
        self.arguments = ["qemu-storage-daemon", "--blockdev",
                          f"driver=file,node-name=disk,filename={disk},locking=on,read-only={'on' if read_only else 'off'}",
                          "--export", "type=vhost-user-blk,id=export,node-name=disk,addr.type=unix,"
                          f"addr.path={self.socket_path},writable={'off' if read_only else 'on'}"]
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL)
        wait_for(lambda: is_listening(self.socket_path) or self.process.poll() is not None, DEADLINE_S, "QEMU listens")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def qemu_and_vblkd_exclude_each_other(directory):
    if not shutil.which("qemu-storage-daemon"):
        print("qemu-storage-daemon is missing (apt-get install qemu-system-common): locks are tested among vblkd only")
        return
    disk = make_image(directory / "disk", SIZE)
    with StorageDaemon(directory, disk, read_only=False) as daemon:
        assert daemon.process.poll() is None
        for options in ([], ["--read-only"]):
            refused(f"--socket-path={directory}/other", f"--blk-file={disk}", *options, words="has locked this disk")
    # QEMU's read-only export lets others write (it says so in its locks), and two that read may share anyway.
    with StorageDaemon(directory, disk, read_only=True) as daemon:
        with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", "--read-only") as server:
            load(server.socket_path, "--number-ios=10")
        assert daemon.process.poll() is None
    for options in ([], ["--read-only"]):
        with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", *options):
            result = subprocess.run(StorageDaemon(directory, disk, read_only=False).arguments, stdin=subprocess.DEVNULL,
                                    capture_output=True, text=True, timeout=DEADLINE_S)
            assert result.returncode != 0 and "lock" in result.stderr, result.stderr
    with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}", "--read-only"):
        with StorageDaemon(directory, disk, read_only=True) as daemon:
            assert daemon.process.poll() is None, "two that only read may share"


def disks_that_are_of_no_use(directory):
    path = f"--socket-path={directory}/socket"
    refused(path, f"--blk-file={directory}/missing", words="missing: cannot open disk")
    refused(path, f"--blk-file={directory}", words="cannot open disk")
    refused(path, f"--blk-file={directory}", "--read-only", words="neither a file nor a block device")
    refused(path, f"--blk-file={make_image(directory / 'odd', 1000)}", words="multiple of 512")
    refused(path, f"--blk-file={make_image(directory / 'empty', 0)}", words="size of 0 bytes")
    refused(path, "--blk-file=null:1X", words="not a disk size")
    disk = make_image(directory / "secret", SIZE)
    os.chmod(disk, 0o400)
    if os.geteuid() == 0:
        return  # root may open it
    refused(path, f"--blk-file={disk}", words="try --read-only")


def mistakes_on_the_command_line(directory):
    for options in ([], ["--blk-file=null:1M"], ["--socket-path=/s"], ["--socket-path=/s", "--blk-file=null:1M", "x"],
                    ["--no-such-option"], ["--socket-path=/s", "--blk-file=null:1M", "--num-queues=65"]):
        refused(*options, status=2)


def several_disks(directory):
    make_image(directory / "one", SIZE)
    make_image(directory / "two", 2 * SIZE)
    with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={directory}/one", "--num-queues=4", "--iothreads=2",
                f"--disk=socket-path={directory}/socket2,blk-file={directory}/two,num-queues=2,serial=TWO",
                f"--disk=socket-path={directory}/socket3,blk-file=null:1M,read-only=on",
                sockets=["socket", "socket2", "socket3"]) as server:
        infos = [load(path, "info") for path in server.sockets]
        text = json.dumps(infos)
        assert "TWO" in text, infos
        loads = [BackgroundLoad(path, "verify", "--queues=2", "--json") for path in server.sockets[:2]]
        try:
            for one in loads:
                status, out, err = one.finish()
                assert status == 0 and json.loads(out)["mismatch_count"] == 0, (out, err)
        finally:
            for one in loads:
                one.__exit__()
        # One that cannot be served means that none is.
        refused(f"--disk=socket-path={directory}/a,blk-file=null:1M", f"--disk=socket-path={directory}/b,blk-file=/missing",
                words="/missing")
        assert not os.path.exists(directory / "a")


def rubbish_harms_nobody_else(directory):
    disk = make_image(directory / "disk", SIZE)
    generator = random.Random(1)
    with Server(directory, f"--socket-path={directory}/socket", f"--blk-file={disk}",
                f"--disk=socket-path={directory}/socket2,blk-file=null:1M", sockets=["socket", "socket2"]) as server:
        with BackgroundLoad(server.sockets[0], "verify", "--queues=2", "--passes=3", "--json") as good:
            for _ in range(50):
                with socket.socket(socket.AF_UNIX) as rubbish:
                    rubbish.connect(server.sockets[1])
                    try:
                        rubbish.sendall(generator.randbytes(generator.randrange(1, 5000)))
                    except (BrokenPipeError, ConnectionResetError):
                        pass  # it hung up already
            status, out, err = good.finish()
            assert status == 0 and json.loads(out)["mismatch_count"] == 0, (out, err)
        load(server.sockets[1], "--number-ios=100")
        assert len(server.log().splitlines()) < 200, "a front end can make it write as much as it likes"


def descriptors_that_are_handed_over(directory):
    ours, theirs = socket.socketpair()
    with theirs:
        server = Server(directory, f"--fd={theirs.fileno()}", "--blk-file=null:1M", sockets=[], pass_fds=[theirs.fileno()])
        server.start()
    try:
        with ours:
            ours.sendall(bytes([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]))  # GET_FEATURES
            assert len(ours.recv(100)) == 20
        server.wait(0)  # its front end has left: nobody else can come
    finally:
        server.kill()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "given"))
        listener.listen()
        with Server(directory, f"--fd={listener.fileno()}", "--blk-file=null:1M", sockets=["given"],
                    pass_fds=[listener.fileno()]) as server:
            for _ in range(3):
                load(server.socket_path, "--number-ios=100")
    refused("--fd=0", "--blk-file=null:1M", words="descriptor 0")
    refused("--fd=99", "--blk-file=null:1M", words="descriptor 99")


def tells_what_it_can_do(directory):
    out = subprocess.run([os.environ["VBLKD"], "--print-capabilities"], capture_output=True, text=True, check=True).stdout
    answer = json.loads(out)
    assert answer["type"] == "block" and set(answer["features"]) == {"read-only", "blk-file"}, answer


def warns_of_too_few_mappings(directory):
    with open("/proc/sys/vm/max_map_count") as limit:
        limit = int(limit.read())
    disks = [f"--disk=socket-path={directory}/socket{i},blk-file=null:1M" for i in range(1, limit // 2 // 16384 + 3)]
    with Server(directory, "--stack-guard=mprotect", *disks, sockets=[f"socket{i + 1}" for i in range(len(disks))]) as server:
        assert "vm.max_map_count is" in server.log(), server.log()
    with Server(directory, "--stack-guard=mprotect", disks[0], "--num-queues=4", sockets=["socket1"]) as server:
        assert "max_map_count" not in server.log(), server.log()


def serves_with_every_pool(directory):
    for policy in ("batched", "per-thread", "none"):
        with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--iothreads=2",
                    f"--coroutine-pool={policy}") as server:
            load(server.socket_path, "--queues=2", "--iodepth=32", "--number-ios=5000")


def works_without_the_provider(directory):
    env = {**os.environ, "VBLKSCOPE_TRACEPOINTS": "/nonexistent/provider.so"}
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1M", env=env) as server:
        assert "continuing without tracing" in server.log(), server.log()
        load(server.socket_path, "--number-ios=100")
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1M", "--no-tracing") as server:
        assert "tracing" not in server.log(), server.log()
        with open(f"/proc/{server.process.pid}/maps") as maps:
            assert "lttng-ust.so" not in maps.read()
        load(server.socket_path, "--number-ios=100")


def signals_at_any_time(directory):
    """SIGTERM while a front end starts and stops all the time, and twice."""
    generator = random.Random(2)
    for _ in range(4):
        with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--iothreads=2") as server:
            with BackgroundLoad(server.socket_path, "--queues=4", "--restarts=100000", "--no-drain", "--runtime=60") as front_end:
                seconds = generator.choice([0, 0.01, 0.03, 0.1])  # of work on messages, before the signal
                wait_for(lambda: "front end connected" in server.log() and
                         thread_seconds(server.process.pid)["main"] >= seconds, DEADLINE_S, "the front end is at work")
                server.process.send_signal(signal.SIGTERM)
                server.process.send_signal(signal.SIGINT)
                server.wait(0)
                front_end.finish()


def used_by_main(server):
    return thread_seconds(server.process.pid)["main"]


def a_stop_leaves_no_loop_spinning(directory):
    """With the fault it does: the front end holds the eventfd of a stopped ring, and the main thread never sleeps."""
    stopped_rings = 2 * 2  # each keeps its descriptors for interrupts and errors; that for kicks is closed
    for fault in ([], ["--fault=started-before-attach"]):
        with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--num-queues=2", "--iothreads=2",
                    *fault) as server:
            idle = eventfd_count(server.process.pid)
            with BackgroundLoad(server.socket_path, "--queues=2", "--number-ios=1000", "--hold=60") as front_end:
                wait_for(lambda: used_by_main(server) > 0.3 if fault else
                         eventfd_count(server.process.pid) == idle + stopped_rings, DEADLINE_S,
                         "the main thread spins" if fault else "the rings are stopped")
                used, begin = used_by_main(server), time.monotonic()
                if fault:
                    # What the machine gives it: on a busy one less than the whole processor.
                    wait_for(lambda: used_by_main(server) - used > 0.3, DEADLINE_S, "the main thread goes on spinning")
                else:
                    wait_for(lambda: time.monotonic() - begin > 1, DEADLINE_S, "a second")
                    share = (used_by_main(server) - used) / (time.monotonic() - begin)
                    assert share < 0.1, f"the main thread uses {share:.0%} of a processor with nothing to do"
                assert front_end.process.poll() is None


def busy_polling_needs_a_front_end(directory):
    """A thread that never sleeps does while nobody is connected, before the first front end and after each; requests, a stop
    and SIGTERM work as ever."""
    with Server(directory, f"--socket-path={directory}/socket", "--blk-file=null:1G", "--num-queues=2", "--busy-poll") as server:
        def used():
            return thread_seconds(server.process.pid)["iothread0"]

        for _ in range(2):
            before, begin = used(), time.monotonic()
            wait_for(lambda: time.monotonic() - begin > 0.5, DEADLINE_S, "half a second")
            share = (used() - before) / (time.monotonic() - begin)
            assert share < 0.1, f"the IOThread uses {share:.0%} of a processor with nobody connected"
            assert load(server.socket_path, "--queues=2", "--restarts=3", "--runtime=0.3")["error_count"] == 0
            with BackgroundLoad(server.socket_path, "--queues=2", "--iodepth=1", "--number-ios=1000000000"):
                before = used()
                wait_for(lambda: used() - before > 0.2, DEADLINE_S, "the IOThread is busy")
            wait_for(lambda: server.log().count("front end disconnected") % 2 == 0, DEADLINE_S, "the front end is gone")


if __name__ == "__main__":
    from serving import main
    main([verifies_on_every_kind_of_disk, sigterm_keeps_what_was_acknowledged, front_ends_come_and_go, sockets_in_use,
          disks_that_are_locked, qemu_and_vblkd_exclude_each_other, disks_that_are_of_no_use, mistakes_on_the_command_line,
          several_disks, rubbish_harms_nobody_else, descriptors_that_are_handed_over, tells_what_it_can_do,
          warns_of_too_few_mappings, serves_with_every_pool, works_without_the_provider,
          signals_at_any_time, a_stop_leaves_no_loop_spinning,
          busy_polling_needs_a_front_end])
