"""QEMU's monitor: one JSON object a line, commands and answers, and events in between.

    monitor = Monitor(path)
    monitor.run("device_add", driver="pc-dimm", id="dimm", memdev="hot")
    monitor.wait_event("DEVICE_DELETED", lambda data: data.get("device") == "dimm", 60)
"""

import json
import socket
import time

ANSWER_DEADLINE_S = 60


class MonitorError(Exception):
    """QEMU refused a command, or did not answer."""


class Monitor:
    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._buffer = b""
        self._events = []
        try:
            self._socket.settimeout(ANSWER_DEADLINE_S)
            self._socket.connect(path)
            self._read(time.monotonic() + ANSWER_DEADLINE_S)  # the greeting
            self.run("qmp_capabilities")
        except BaseException:
            self._socket.close()
            raise

    def close(self):
        self._socket.close()

    def _read(self, deadline):
        while b"\n" not in self._buffer:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                data = self._socket.recv(65536)
            except socket.timeout:
                raise MonitorError("QEMU's monitor says nothing") from None
            if not data:
                raise MonitorError("QEMU has closed its monitor")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)

    def run(self, command, **arguments):
        """The command's answer; what QEMU refuses is a MonitorError."""
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        deadline = time.monotonic() + ANSWER_DEADLINE_S
        while True:
            message = self._read(deadline)
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise MonitorError(f"{command} {arguments}: {message['error']['desc']}")
            self._events.append(message)

    def wait_event(self, name, condition, timeout_s):
        """The data of the first event of that name that meets the condition, also of one that has come already."""
        deadline = time.monotonic() + timeout_s
        while True:
            for event in self._events:
                if event["event"] == name and condition(event.get("data", {})):
                    self._events.remove(event)
                    return event.get("data", {})
            self._events.append(self._read(deadline))
