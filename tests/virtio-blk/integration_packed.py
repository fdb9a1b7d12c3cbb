#!/usr/bin/env python3
"""Goal: vblkd serves packed rings of any size without losing or misplacing anything, over stops, and to a driver that left.

Method: stamped data over several queues and IOThreads, rings of odd sizes with tables and without, with events and without,
stopped and started with requests in flight (the front end checks the positions of every stop); split and packed front ends
one after another; a front end that is killed in the middle of load. If it fails: guests with packed rings lose data.

Usage: integration_packed.py [TEST...]
"""

from serving import DEADLINE_S, BackgroundLoad, Server, load, main, make_image, thread_seconds, wait_for

SIZE = 8 << 20

FORMS = (
    ["--queue-size=128", "--iodepth=32"],
    ["--queue-size=100", "--iodepth=33", "--no-indirect"],
    ["--queue-size=7", "--iodepth=7", "--no-event-idx"],
    ["--queue-size=61", "--iodepth=6", "--segment-size=512", "--no-indirect"],
    ["--queue-size=1023", "--iodepth=100"],
    # One thread that polls: more, on a small machine and under a sanitizer, would leave the server no processor.
    ["--queue-size=1024", "--iodepth=64", "--no-event-idx", "--no-indirect", "--poll", "--queues=1"],
)


def arguments(directory):
    disk = make_image(directory / "disk", SIZE)
    return f"--socket-path={directory}/socket", f"--blk-file={disk}", "--num-queues=4", "--iothreads=2"


def every_form_verifies(directory):
    with Server(directory, *arguments(directory)) as server:
        for number, form in enumerate(FORMS):
            restarts = ["--restarts=3", "--no-drain"] if number % 2 else ["--restarts=1"]
            result = load(server.socket_path, "verify", "--packed", "--queues=4", f"--generation={number + 1}", *form,
                          *restarts)
            assert result["mismatch_count"] == 0 and result["checked_count"] == SIZE // 4096, (form, result)
            # What one format wrote the other reads; a ring's place in one means nothing in the other.
            result = load(server.socket_path, "verify", "--read-only", "--queues=3", f"--generation={number + 1}")
            assert result["mismatch_count"] == 0, (form, result)
        assert "broke" not in server.log(), server.log()


def front_ends_come_and_go(directory):
    with Server(directory, *arguments(directory)) as server:
        for count in range(1, 3):
            with BackgroundLoad(server.socket_path, "--packed", "--queues=4", "--rw=randrw", "--runtime=60") as front_end:
                wait_for(lambda: server.log().count("front end connected") == 2 * count - 1, DEADLINE_S, "it is connected")
                used = thread_seconds(server.process.pid)["iothread0"]
                wait_for(lambda: thread_seconds(server.process.pid)["iothread0"] > used + 0.05, DEADLINE_S,
                         "the IOThread is at work")
                front_end.process.kill()
            load(server.socket_path, "--packed", "--queues=4", "--number-ios=400")
        assert "broke" not in server.log(), server.log()


main([every_form_verifies, front_ends_come_and_go])
