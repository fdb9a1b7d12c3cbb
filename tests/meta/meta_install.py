#!/usr/bin/env python3
"""Goal: what `meson install` puts on a machine is complete.

Method: the build is installed below a temporary directory; programs, provider, babeltrace2 plugin, the runtime's
pkg-config file, QEMU's description of the back end, the demo and every manual page of the tree must be there, the
programs must answer --help, and the description must name the program where it was installed. If it fails: something
works from the build folder only.

Usage: meta_install.py BUILD
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import tree

PROGRAMS = ["vblkd", "vblk-load", "vblkscope"]
# Patterns below the prefix; each must match exactly one file. lib*: meson falls back to lib64 where dpkg-dev is missing.
FILES = [
    "bin/vblkd", "bin/vblk-load", "bin/vblkscope",
    "lib*/**/vblkscope/vblkscope-tracepoints.so",
    "lib*/**/pkgconfig/*.pc",
    "libexec/vblkscope/demo.sh",
    "libexec/vblkscope/guest/guest_load.py",
    "share/qemu/vhost-user/*.json",
    "share/vblkscope/report.schema.json",
]
# Where babeltrace2 looks, which need not be below the prefix.
PLUGIN = "**/babeltrace2/plugins/babeltrace-plugin-vblk.so"


def install(build, directory):
    command = ["meson", "install", "-C", build, "--no-rebuild", "--destdir", directory]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {result.returncode}\n{result.stdout}{result.stderr}")


def check_description(path, prefix, problems):
    """QEMU's docs/interop/vhost-user.json: type and binary."""
    description = json.loads(path.read_text())
    if description.get("type") != "block":
        problems.append(f"{path.name}: type is {description.get('type')!r}, not 'block'")
    if description.get("binary") != f"{prefix}/bin/vblkd":
        problems.append(f"{path.name}: binary is {description.get('binary')!r}, not {prefix}/bin/vblkd")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    command = ["meson", "introspect", "--buildoptions", build]
    options = subprocess.run(command, check=True, capture_output=True, text=True)
    prefix = next(option["value"] for option in json.loads(options.stdout) if option["name"] == "prefix")
    problems = []
    with tempfile.TemporaryDirectory(prefix="vblk-install-") as directory:
        install(build, directory)
        place = Path(directory + prefix)
        for pattern in FILES:
            found = list(place.glob(pattern))
            if len(found) != 1:
                problems.append(f"{pattern}: {len(found)} files installed, not one")
            elif found[0].parent.name == "vhost-user":
                check_description(found[0], prefix, problems)
        if len(list(Path(directory).glob(PLUGIN))) != 1:
            problems.append(f"{PLUGIN}: not installed")
        for program in PROGRAMS:
            path = place / "bin" / program
            if path.exists() and subprocess.run([path, "--help"], capture_output=True).returncode != 0:
                problems.append(f"{program}: does not answer --help when installed")
        pages = [path for section in "178" for path in tree.files(f".{section}")]
        for page in pages:
            if not list(place.glob(f"share/man/**/{page.name}*")):
                problems.append(f"{page}: not installed")
    tree.finish(problems, len(FILES) + len(pages), "installed files")


main()
