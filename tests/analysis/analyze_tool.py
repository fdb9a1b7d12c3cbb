"""What the tests of the program share: its path, a trace from a list of events, a run with a deadline."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "builder"))
from build_trace import Trace  # noqa: E402

VBLKSCOPE = os.environ["VBLKSCOPE"]
# No input may take longer; a sanitizer build on a busy machine is slow.
DEADLINE_S = 120

HEALTHY = """
!packet cpu0 2
1   cpu0 vtid=7 rt_process:info version=1.0 contract_version=1
1.5 cpu0 vtid=7 rt_loop:create loop_id=1 name=main thread_id=7
3   cpu0 vtid=7 rt_loop:work_run loop_id=1 count=1
3.5 cpu1 vtid=8 rt_loop:create loop_id=2 name=io0 thread_id=8
"""
BROKEN_QUEUE = HEALTHY + """
1.6 cpu0 vtid=7 vblk_dataplane:device_create device_id=1 name=disk queue_count=2
4   cpu1 vtid=8 vblk_queue:broken device_id=1 queue_index=1 error=-71 reason="descriptor outside memory"
"""


def build(folder, events=HEALTHY):
    Trace().read(events.splitlines()).write(folder)
    return Path(folder)


class Result:
    def __init__(self, process):
        self.status = process.returncode
        self.out = process.stdout.decode(errors="replace")
        self.err = process.stderr.decode(errors="replace")

    @property
    def report(self):
        return json.loads(self.out)

    def ids(self):
        return [f["id"] for f in self.report["findings"]]


def run(*args, **options):
    """Raises subprocess.TimeoutExpired for a hang."""
    process = subprocess.run([VBLKSCOPE, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                             timeout=DEADLINE_S, **options)
    result = Result(process)
    assert result.status in (0, 1, 2, 3), f"{args}: status {result.status}: {result.err[-2000:]}"
    assert "Sanitizer" not in result.err and "runtime error" not in result.err, result.err[-4000:]
    return result


def analyze(*args, **options):
    return run("analyze", "--format=json", *args, **options)


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def main(scope):
    """Run every test_* function of a module in a temporary directory of its own."""
    failed = 0
    for name, function in list(scope.items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory(prefix="vblkscope-test-") as folder:
            try:
                function(Path(folder))
                print(f"ok   {name}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired, KeyError, ValueError, OSError) as error:
                failed += 1
                print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)
