"""The repository as the checks see it: its files without build directories, and how a check reports.

The tree is walked, not asked of git: the checks also run in an unpacked archive.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIP = 77

# Which room may include headers of which: uses run one way.
MAY_INCLUDE = {
    "tracepoints": {"tracepoints"},
    "runtime": {"runtime", "tracepoints"},
    "virtio-blk": {"virtio-blk", "runtime", "tracepoints"},
    "analysis": {"analysis"},
    "dashboards": {"dashboards"},
}


def files(*suffixes, under=""):
    """Paths below ROOT/@under, sorted, with one of the suffixes (none given: all files)."""
    found = []
    for place, directories, names in os.walk(ROOT / under):
        top = Path(place) == ROOT
        builds = {name for name in directories if top and name.startswith("build")}
        left_out = builds | {".git", "__pycache__", "node_modules"}
        directories[:] = [name for name in directories if name not in left_out]
        for name in names:
            if name != ".git" and (not suffixes or name.endswith(suffixes)):
                found.append((Path(place) / name).relative_to(ROOT))
    return sorted(found)


def text(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def is_text(path):
    with open(ROOT / path, "rb") as file:
        return b"\0" not in file.read(4096)


def finish(problems, checked, what):
    """Print what is wrong and exit; a check that looked at nothing has not checked anything, and fails."""
    for problem in problems:
        print(problem)
    if not checked:
        problems = problems or [f"no {what} found to check"]
        print(problems[0])
    print(f"{checked} {what} checked, {len(problems)} problems")
    sys.exit(1 if problems else 0)
