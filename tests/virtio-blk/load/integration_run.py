#!/usr/bin/env python3
"""Goal: vblk-load loads a server that is not ours and reports what it did, in text and JSON.

Method: qemu-storage-daemon serves an image; runs in every pattern, with restarts, and with the server killed in the
middle. If it fails: numbers of vblk-load cannot be compared between servers, or it hangs when a server dies.
"""

import os
import pty
import subprocess

from storage_daemon import DEADLINE_S, Load, StorageDaemon, main, make_image, require_daemon, wait_for

SIZE = 16 << 20


def check_latency(latency, total):
    assert latency["N"] == total
    assert 0 < latency["min"] <= latency["mean"] <= latency["max"], latency
    values = list(latency["percentile"].values())
    assert values == sorted(values), latency
    assert latency["min"] <= values[0] and values[-1] <= latency["max"], latency
    assert "50.000000" in latency["percentile"] and "99.990000" in latency["percentile"]


def random_mix_on_two_queues(directory, program):
    make_image(directory / "disk", SIZE)
    with StorageDaemon(directory, directory / "disk") as daemon:
        load = Load(program, daemon.socket_path)
        result = load.json("--rw=randrw", "--queues=2", "--iodepth=8", "--number-ios=4001", "--rwmixread=70")
        assert result["total_ios"] == 4001 == result["read"]["total_ios"] + result["write"]["total_ios"], result
        assert 0.6 < result["read"]["total_ios"] / 4001 < 0.8, result["read"]["total_ios"]
        assert result["io_bytes"] == 4001 * 4096
        assert [queue["total_ios"] for queue in result["queues"]] == [2001, 2000]
        assert result["error_count"] == 0 == result["used_length_wrong_count"]
        check_latency(result["lat_ns"], 4001)
        check_latency(result["read"]["lat_ns"], result["read"]["total_ios"])
        seconds = result["elapsed_ns"] / 1e9
        assert abs(result["iops"] - 4001 / seconds) < 1 and abs(result["bw_bytes"] - 4001 * 4096 / seconds) < 4096


def every_pattern_and_mode(directory, program):
    make_image(directory / "disk", SIZE)
    with StorageDaemon(directory, directory / "disk") as daemon:
        load = Load(program, daemon.socket_path)
        for pattern in ("read", "write", "randread", "randwrite"):
            for mode in ([], ["--poll"], ["--no-event-idx"], ["--no-indirect"], ["--no-reply-ack"],
                         ["--segment-size=512", "--bs=16K"], ["--no-protocol-features", f"--size={SIZE}"]):
                result = load.json(f"--rw={pattern}", "--number-ios=300", *mode)
                busy, idle = ("read", "write") if "read" in pattern else ("write", "read")
                assert result[busy]["total_ios"] == 300 and result[idle]["total_ios"] == 0, result
                if mode == ["--poll"]:
                    assert result["wait_count"] == 0
        text, _ = load.run("--runtime=0.2")
        assert "requests/s" in text and "99.9 %" in text, text


def restarts(directory, program):
    make_image(directory / "disk", SIZE)
    with StorageDaemon(directory, directory / "disk") as daemon:
        load = Load(program, daemon.socket_path)
        result = load.json("--rw=randrw", "--queues=2", "--runtime=1", "--restarts=5", "--hold=0.1")
        assert result["restart_count"] == 5 and result["error_count"] == 0, result
        result = load.json("--number-ios=50", "--restarts=3")
        assert result["restart_count"] == 3 and result["total_ios"] == 50, result


def server_killed_in_the_middle(directory, program):
    make_image(directory / "disk", SIZE)
    with StorageDaemon(directory, directory / "disk") as daemon:
        for mode in ([], ["--poll"]):
            if not daemon.process:
                daemon.start()
            load = Load(program, daemon.socket_path)
            child = subprocess.Popen(load.command("--runtime=60", "--queues=2", *mode), stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
            try:
                wait_for(lambda: worked(daemon.process.pid), DEADLINE_S, "requests are served")
                daemon.kill()
                out, err = child.communicate(timeout=30)
            finally:
                child.kill()
                child.wait()
            assert child.returncode == 1, (child.returncode, out, err)
            assert "the server closed the connection during the run" in err and len(err.splitlines()) == 1, err
            assert "requests/s" in out, out


def worked(process_id):
    """It has used a tenth of a second of CPU: more than starting takes."""
    with open(f"/proc/{process_id}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > 0.1


def what_does_not_fit(directory, program):
    make_image(directory / "disk", SIZE)
    with StorageDaemon(directory, directory / "disk", export="writable=off") as daemon:
        load = Load(program, daemon.socket_path)
        assert "read-only" in load.run("--rw=write", status=1)[1]
        assert "--queues=2 or fewer" in load.run("--queues=3", status=1)[1]
        assert "beyond the disk" in load.run(f"--offset={SIZE}", "--size=4K", status=1)[1]
        load.run("--rw=read", "--number-ios=10")
    assert "is the server running" in Load(program, str(directory / "nobody")).run(status=1)[1]
    assert "--bs=7" in load.run("--bs=7", status=2)[1]


def progress_on_a_terminal_only(directory, program):
    """StorageDaemon's runs have stderr in a pipe and check that it stays empty; here it is a terminal."""
    make_image(directory / "disk", SIZE)
    with StorageDaemon(directory, directory / "disk") as daemon:
        near, far = pty.openpty()
        child = subprocess.run(Load(program, daemon.socket_path).command("--runtime=0.5"), stdout=subprocess.PIPE,
                               stderr=far, timeout=60, check=True)
        os.close(far)
        shown = os.read(near, 65536).decode()
        os.close(near)
        assert "randread [" in shown and "requests" in shown, repr(shown)
        assert b"requests/s" in child.stdout


require_daemon()
main([random_mix_on_two_queues, every_pattern_and_mode, restarts, server_killed_in_the_middle, what_does_not_fit,
      progress_on_a_terminal_only])
