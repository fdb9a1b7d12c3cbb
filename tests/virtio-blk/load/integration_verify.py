#!/usr/bin/env python3
"""Goal: verify passes on a good disk and finds exactly what was corrupted, also over a restart or kill of the server.

Method: qemu-storage-daemon serves an image that the test edits between the writing and the reading phase. If it fails:
the tests that prove "nothing acknowledged is lost" prove nothing.
"""

import subprocess

from storage_daemon import DEADLINE_S, Load, StorageDaemon, main, make_image, require_daemon, wait_for

SIZE = 8 << 20


def good_disk(directory, program):
    make_image(directory / "disk", SIZE)
    with StorageDaemon(directory, directory / "disk") as daemon:
        load = Load(program, daemon.socket_path)
        result = load.json("verify", "--queues=2", "--passes=2", "--restarts=2")
        blocks = SIZE // 4096
        assert result["acknowledged_count"] == 2 * blocks == result["checked_count"], result
        assert result["mismatch_count"] == 0 and result["complete"] and result["restart_count"] == 8, result
        # Another block size over a part of the disk leaves the rest alone.
        load.run("verify", "--bs=64K", "--offset=1M", "--size=1M", "--seed=2")
        load.run("verify", "--read-only", "--generation=2", "--size=1M")


def edited(image, offset, data):
    with open(image, "r+b") as file:
        file.seek(offset)
        file.write(data)


def corruption_is_found(directory, program):
    image = directory / "disk"
    make_image(image, SIZE)
    with StorageDaemon(directory, image) as daemon:
        load = Load(program, daemon.socket_path)
        load.run("verify", "--write-only", "--queues=2")
        daemon.stop()
        whole = image.read_bytes()
        sector = 1777
        at = sector * 512
        cases = [
            (at + 300, bytes([whole[at + 300] ^ 0x10]), 1, "1 bytes changed from byte 300 on"),
            (at, bytes(512), 1, "zeroes"),
            (at, whole[at + 512:at + 1024], 1, f"misplaced: sector {sector + 1}"),
            (at, b"\xff" * 1024, 2, "no stamp"),
        ]
        for offset, data, count, words in cases:
            image.write_bytes(whole)
            edited(image, offset, data)
            daemon.start()
            result = load.json("verify", "--read-only", "--queues=2", status=1)
            daemon.stop()
            assert result["mismatch_count"] == count, (words, result)
            assert result["mismatches"][0]["sector"] == sector, result
            assert result["mismatches"][0]["block"] == sector // 8, result
            assert words in result["mismatches"][0]["found"], result
        image.write_bytes(whole)
        daemon.start()
        load.run("verify", "--read-only", "--queues=2")
        assert "another run" not in load.run("verify", "--read-only", "--seed=9", status=1)[1]


def acknowledged_writes_survive_a_kill(directory, program):
    image, log = directory / "disk", directory / "acks"
    make_image(image, SIZE)
    with StorageDaemon(directory, image) as daemon:
        load = Load(program, daemon.socket_path)
        child = subprocess.Popen(load.command("verify", "--write-only", "--passes=1000", f"--ack-log={log}", "--queues=2"),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: log.exists() and log.stat().st_size > 40000, DEADLINE_S,
                     "thousands of writes are acknowledged")
            daemon.kill()
            out, err = child.communicate(timeout=60)
        finally:
            child.kill()
            child.wait()
        assert child.returncode == 1 and "the server closed the connection" in err, err
        records = log.read_text().splitlines()[1:]
        assert f" {len(records)} writes acknowledged" in out, (len(records), out)

        daemon.start()
        load.run("verify", "--read-only", "--queues=2", f"--ack-log={log}")
        # What the log promises is really looked for: undo one acknowledged write.
        block = int(records[0].split()[0])
        daemon.stop()
        edited(image, block * 4096, bytes(4096))
        daemon.start()
        result = load.json("verify", "--read-only", f"--ack-log={log}", status=1)
        assert result["mismatch_count"] == 8 and result["mismatches"][0]["block"] == block, result
        # Writing goes on with the next generation, and everything is right again.
        highest = max(int(record.split()[1]) for record in records)
        result = load.json("verify", f"--ack-log={log}", "--queues=2")
        assert result["generation"] == highest + 1, (result, highest)
        load.run("verify", "--read-only", f"--ack-log={log}")


require_daemon()
main([good_disk, corruption_is_found, acknowledged_writes_survive_a_kill])
