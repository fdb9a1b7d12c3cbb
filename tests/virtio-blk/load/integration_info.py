#!/usr/bin/env python3
"""Goal: info tells what the server offers, in text and JSON alike.

Method: qemu-storage-daemon serves images of known size and mode. If it fails: info misleads whoever debugs a device.
"""

from storage_daemon import Load, StorageDaemon, main, make_image, require_daemon


def size_and_mode(directory, program):
    image = directory / "disk"
    for size, queues, export in ((5 << 20, 3, "writable=on,logical-block-size=512"),
                                 (8 << 20, 1, "writable=off,logical-block-size=4096")):
        make_image(image, size)
        with StorageDaemon(directory, image, queues=queues, export=export) as daemon:
            load = Load(program, daemon.socket_path)
            info = load.json("info")
            assert info["config"]["capacity_bytes"] == size == info["config"]["capacity_sectors"] * 512, info
            assert info["config"]["blk_size"] == int(export.rsplit("=", 1)[1]), info
            assert info["queue_count"] == queues == info["config"]["num_queues"], info
            assert ("RO" in info["features_offered"]) == ("writable=off" in export), info
            assert "VERSION_1" in info["features_negotiated"] and "CONFIG" in info["protocol_features_offered"], info
            assert info["serial"] == "vhost_user_blk", info
            assert info["memory_slots"] >= 8, info
            text, _ = load.run("info")
            for line in text.splitlines():
                key = line.split()[0].rstrip(":")
                assert key in info or key in info["config"], line
            for key, value in info["config"].items():
                assert [key, str(value)] in [line.split() for line in text.splitlines()], (key, text)


def fewer_features(directory, program):
    make_image(directory / "disk", 1 << 20)
    with StorageDaemon(directory, directory / "disk") as daemon:
        load = Load(program, daemon.socket_path)
        info = load.json("info", "--no-event-idx", "--no-indirect", "--no-reply-ack")
        assert "EVENT_IDX" not in info["features_negotiated"] and "EVENT_IDX" in info["features_offered"], info
        info = load.json("info", "--no-protocol-features")
        assert info["config"] is None and info["queue_count"] is None and info["memory_slots"] is None, info
        load.run("info", "--no-protocol-features")


require_daemon()
main([size_and_mode, fewer_features])
