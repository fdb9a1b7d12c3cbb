"""Chromium without a window, driven by its DevTools protocol over two pipes: no driver, no port, no further package.

    with Browser() as browser:
        page = browser.open("file:///.../report.html")
        page.value("document.title")              # what an expression gives
        page.wait("'ready' in document.documentElement.dataset")
        assert page.problems == [] and page.requests == [page.address]

Source: Chrome DevTools Protocol, `--remote-debugging-pipe` (messages are JSON, each ended by a NUL, on descriptors 3 and 4).
"""

import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

# For one answer: the page on paper takes long on a busy machine.
DEADLINE_S = 240


def program():
    return shutil.which("chromium")


class Browser:
    def __init__(self, *options):
        self.profile = tempfile.mkdtemp(prefix="vblkscope-browser.")
        to_browser, self.sending = os.pipe()
        self.receiving, from_browser = os.pipe()
        # What is opened is a file that the test has made itself; the sandbox needs namespaces that a container may not have.
        command = [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
                   "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
                   "--hide-scrollbars", f"--user-data-dir={self.profile}", "--remote-debugging-pipe", *options, "about:blank"]

        def give_pipes():
            # First out of the way: either may be 3 or 4 itself.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.log = open(pathlib.Path(self.profile) / "log", "wb")
        # Its processes are a group of their own, to be ended together.
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        pass_fds=(3, 4, to_browser, from_browser), preexec_fn=give_pipes, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.received, self.events, self.number = b"", [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(DEADLINE_S)
        os.close(self.sending)
        os.close(self.receiving)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, deadline):
        """The next message; None at the deadline."""
        while b"\0" not in self.received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.receiving], [], [], left)[0]:
                return None
            some = os.read(self.receiving, 1 << 20)
            assert some, f"the browser ended: {(pathlib.Path(self.profile) / 'log').read_text(errors='replace')[-2000:]}"
            self.received += some
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.sending, data):]
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.receive(deadline)
            assert answer is not None, f"{method}: no answer in {DEADLINE_S} s"
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if "id" not in answer:
                self.events.append(answer)

    def open(self, address, width=1400, height=1000, features=()):
        return Page(self, address, width, height, features)


class Page:
    """A tab. `features` are CSS media features, such as ("prefers-color-scheme", "dark")."""

    def __init__(self, browser, address, width, height, features):
        self.browser, self.address = browser, address
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.media(*features)
        self.call("Page.navigate", url=address)
        self.wait(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def media(self, *features):
        self.call("Emulation.setEmulatedMedia", features=[{"name": name, "value": value} for name, value in features])

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait(self, expression):
        deadline = time.monotonic() + DEADLINE_S
        while not self.value(expression):
            assert time.monotonic() < deadline, f"still not so: {expression}; {self.problems}"
            time.sleep(0.05)

    def key(self, name, code=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code)

    def mouse(self, *steps):
        """Each step: (kind, x, y), kind of mousePressed, mouseMoved, mouseReleased."""
        for kind, x, y in steps:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def picture(self, whole=False):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def seen(self, method):
        return [event["params"] for event in self.browser.events
                if event["method"] == method and event.get("sessionId") == self.session]

    @property
    def problems(self):
        """What went to the console as an error, exceptions nobody caught, what a policy refused."""
        return ([event["exceptionDetails"] for event in self.seen("Runtime.exceptionThrown")] +
                [event for event in self.seen("Runtime.consoleAPICalled") if event["type"] in ("error", "warning")] +
                [event["entry"] for event in self.seen("Log.entryAdded") if event["entry"]["level"] in ("error", "warning")])

    @property
    def requests(self):
        return [event["request"]["url"] for event in self.seen("Network.requestWillBeSent")]
