#!/usr/bin/env python3
"""Goal: a guest on a network disk loses nothing when the NBD server dies and comes back, and is told when it does not.

Method: vblkd in front of real nbdkit servers, with several connections and with one, that are killed and started again in the
middle of stamped load; servers that are slow, that fail, and that stay away. If it fails: guests on network disks lose
acknowledged data, hang, or take errors for data.

Usage: integration_nbd.py [TEST...]
"""

import os
import shutil
import subprocess
import sys
import time

from serving import DEADLINE_S, BackgroundLoad, Server, is_listening, load, main, make_image, wait_for

SIZE = 16 << 20


class Nbdkit:
    def __init__(self, directory, *arguments):
        self.path = str(directory / "nbd.sock")
        self.directory = directory
        self.arguments = arguments
        self.process = None

    def start(self):
        (self.directory / "nbd.sock").unlink(missing_ok=True)
        with open(self.directory / "nbdkit.log", "ab") as log:
            self.process = subprocess.Popen(["nbdkit", "-f", "-U", self.path, *map(str, self.arguments)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: is_listening(self.path) or self.process.poll() is not None, DEADLINE_S, "nbdkit listens")
        assert self.process.poll() is None, (self.directory / "nbdkit.log").read_text()
        return self

    def kill(self):
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()


def vblkd(directory, nbdkit, *options):
    return Server(directory, f"--socket-path={directory}/socket", f"--blk-file=nbd:unix:{nbdkit.path}", "--num-queues=2",
                  "--iothreads=2", *options)


def kinds(disk):
    return (["file", disk], ["--filter=multi-conn", "file", disk, "multi-conn-mode=disable"])


def loses_nothing_when_the_server_dies(directory):
    disk = make_image(directory / "disk", SIZE)
    for kind in kinds(disk):
        with Nbdkit(directory, *kind) as nbdkit, vblkd(directory, nbdkit) as server:
            with BackgroundLoad(server.socket_path, "verify", "--queues=2", "--iodepth=32", "--passes=3") as verify:
                for times in range(1, 3):
                    written = disk.stat().st_mtime_ns
                    wait_for(lambda: disk.stat().st_mtime_ns != written or verify.process.poll() is not None, DEADLINE_S,
                             "data reach the server")
                    if verify.process.poll() is not None:
                        break  # a fast machine; what happened is judged all the same
                    nbdkit.kill()
                    wait_for(lambda: server.log().count("is lost") >= times, DEADLINE_S, "vblkd sees that it is gone")
                    nbdkit.start()
                    wait_for(lambda: server.log().count("server again") >= times, DEADLINE_S, "it is found again")
                status, out, err = verify.finish()
            assert status == 0 and " 0 sectors differ, 0 requests failed" in out, f"{kind}: {out}{err}"
            assert "is lost" in server.log(), server.log()


def tells_when_the_server_stays_away(directory):
    for wait_s in (0, 1):
        with Nbdkit(directory, "memory", "16M") as nbdkit, vblkd(directory, nbdkit, f"--nbd-reconnect={wait_s}") as server:
            assert load(server.socket_path, "--number-ios=1000")["total_ios"] == 1000
            nbdkit.kill()
            begin = time.monotonic()
            load(server.socket_path, "--number-ios=100", "--rw=randwrite", "--queues=2", status=1)
            assert time.monotonic() - begin >= wait_s, "requests wait as long as was said"
            nbdkit.start()
            assert load(server.socket_path, "--number-ios=1000")["error_count"] == 0


def a_stop_does_not_wait_longer_than_requests_do(directory):
    disk = make_image(directory / "disk", SIZE)
    written = disk.stat().st_mtime_ns
    with Nbdkit(directory, "file", disk) as nbdkit, vblkd(directory, nbdkit, "--nbd-reconnect=2") as server:
        with BackgroundLoad(server.socket_path, "--runtime=60", "--rw=randwrite", "--queues=2"):
            wait_for(lambda: disk.stat().st_mtime_ns != written, DEADLINE_S, "data reach the server")
            nbdkit.kill()
            wait_for(lambda: "is lost" in server.log(), DEADLINE_S, "vblkd sees that it is gone")
            server.stop()


def slow_and_failing_servers(directory):
    with Nbdkit(directory, "--filter=delay", "memory", "16M", "rdelay=20ms") as nbdkit, vblkd(directory, nbdkit) as server:
        report = load(server.socket_path, "--number-ios=100", "--iodepth=4")
        assert report["total_ios"] == 100 and report["error_count"] == 0, report
    with Nbdkit(directory, "--filter=error", "memory", "16M", "error-rate=10%") as nbdkit, vblkd(directory, nbdkit) as server:
        report = load(server.socket_path, "--number-ios=2000", "--rw=randrw", status=1)
        assert 0 < report["error_count"] < 1000, report
        assert "the driver is told" in server.log() and "is lost" not in server.log(), server.log()


def a_server_that_wants_tls(directory):
    """Keys are named in the URI; a wrong one is refused, and a server that was lost is found again with TLS."""
    key = directory / "key"
    key.write_text(f"guest:{os.urandom(32).hex()}\n")
    key.chmod(0o600)
    wrong = directory / "wrong"
    wrong.write_text(f"guest:{os.urandom(32).hex()}\n")
    disk = make_image(directory / "disk", SIZE)
    with Nbdkit(directory, "--tls=require", f"--tls-psk={key}", "file", disk) as nbdkit:
        def server(name):
            return Server(directory, f"--socket-path={directory}/socket",
                          f"--blk-file=nbds+unix://guest@/?socket={nbdkit.path}&tls-psk-file={name}", "--nbd-reconnect=60")
        with server(key) as device:
            load(device.socket_path, "verify")
            nbdkit.kill()
            nbdkit.start()
            load(device.socket_path, "verify")
        refused = server(wrong)
        try:
            refused.start()
        except AssertionError:
            assert "cannot connect" in refused.log(), refused.log()
        else:
            refused.stop()
            raise AssertionError("a wrong key was taken")


if __name__ == "__main__":
    if not shutil.which("nbdkit"):
        print("nbdkit is missing")
        sys.exit(77)
    main([loses_nothing_when_the_server_dies, tells_when_the_server_stays_away,
          a_stop_does_not_wait_longer_than_requests_do, slow_and_failing_servers, a_server_that_wants_tls])
