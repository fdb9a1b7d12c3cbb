#!/usr/bin/env python3
"""Makes the page of the HTML report: one file of C that holds it, in the parts between which text and report go.

Usage: embed.py OUTPUT.c PAGE.html STYLE.css... SCRIPT.js... (the library uPlot is taken from uplot/ beside this file)

Everything is inlined, and the page's content security policy allows just these styles and scripts, by their hash: a report
opens from disk without a network, and nothing that a trace holds can run.
"""

import base64
import hashlib
import pathlib
import sys

LIBRARY = pathlib.Path(__file__).resolve().parent / "uplot"


def library(name):
    """A file of the library, if it is the released one."""
    sums = dict(reversed(line.split()) for line in (LIBRARY / "SHA256SUMS").read_text().splitlines())
    content = (LIBRARY / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != sums[name]:
        sys.exit(f"{LIBRARY / name}: is not the released file (see SHA256SUMS and README.md there)")
    return content.decode()


def source(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def main():
    output, page, *files = map(pathlib.Path, sys.argv[1:])
    styles = [library("uPlot.min.css")] + [path.read_text() for path in files if path.suffix == ".css"]
    ours = "\n".join(path.read_text() for path in files if path.suffix == ".js")
    scripts = [library("uPlot.iife.min.js"), f'(() => {{ "use strict";\n{ours}}})();']
    library("LICENSE")
    style, script = "\n".join(styles), "\n".join(scripts)
    for text in (style, script):
        if any(mark in text.lower() for mark in ("</script", "</style", "<!--")):
            sys.exit("a script or a style would end its element")
    policy = (f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; img-src data:; "
              "base-uri 'none'; form-action 'none'")
    text = page.read_text()
    for name, value in {"policy": policy, "style": style, "script": script}.items():
        text = text.replace("{{" + name + "}}", value, 1)
    before, rest = text.split("{{text}}")
    between, after = rest.split("{{report}}")
    with open(output, "w", encoding="ascii") as file:
        file.write('#include "report/html.h"\n')
        for name, part in {"before_text": before, "between": between, "after_report": after}.items():
            numbers = ",".join(map(str, part.encode() + b"\0"))
            file.write(f"\nconst char report_page_{name}[] = {{{numbers}}};\n")


main()
