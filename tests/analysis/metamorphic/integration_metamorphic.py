#!/usr/bin/env python3
"""Goal: verdicts follow from what happened: renumbered, renamed, moved in time, spread over other streams, beside another
process, they stay the same; and who knows less of a recording never finds more in it.

Method: the recordings with known truth (cases.tar.xz) are read once each and judged in many variants by `metamorphic`.
If it fails: what is found in one recording is missed in the next, or an incomplete recording raises a false alarm.

Usage: integration_metamorphic.py METAMORPHIC SEEDS   (a random first seed, printed, if SEEDS is more than 1)
"""

import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ARCHIVE = Path(__file__).parent.parent / "cases/cases.tar.xz"
NEIGHBOUR = "h-start-stop-cycle"  # healthy, and has a bit of everything


def main():
    program, seeds = sys.argv[1], int(sys.argv[2])
    first = 1 if seeds == 1 else random.randrange(1 << 40)
    with tempfile.TemporaryDirectory(prefix="metamorphic-") as folder:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder)
        cases = sorted(path for path in Path(folder).iterdir() if list(path.rglob("metadata")))
        print(f"first seed {first}", flush=True)
        return subprocess.run([program, "--seed", str(first), "--seeds", str(seeds), Path(folder) / NEIGHBOUR, *cases],
                              check=False).returncode


sys.exit(main())
