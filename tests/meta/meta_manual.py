#!/usr/bin/env python3
"""Goal: what the manual says about options and defaults is what the program says about itself.

Method: for each program, the options that `--help` lists and the defaults it names are compared with those of its page
(PROGRAM.1, which lies beside its source), both ways. A subcommand that `--help` lists under "Commands:" is described by
a page of its own (PROGRAM-COMMAND.1) or, without one, by the program's. If it fails: an option or a default was changed
in one place only.

Usage: meta_manual.py PROGRAM...
"""

import re
import subprocess
import sys
from pathlib import Path

import tree

HELP_OPTION = re.compile(r"^\s+(?:-\w, )?--([a-z][a-z0-9-]*)(\[?=\S+)?(.*)$")
HELP_COMMAND = re.compile(r"^  ([a-z][a-z-]*)(?:[, ].*)?  +\S")
PAGE_OPTION = re.compile(r"--([a-z][a-z0-9-]*)(\[?=)?")
DEFAULT = re.compile(r"\bdefault:? +(?:is )?(.+?)(?=[,;)]|\. |\.?$)", re.I)
# Said by every program in the same way; a page may leave them to the reader's habit.
COMMON = {"help", "version"}


class Option:
    def __init__(self, takes_argument, text):
        self.takes_argument = takes_argument
        found = DEFAULT.search(" ".join(text.split()))
        self.default = found.group(1).strip().lower() if found else None


def help_text(program, *command):
    result = subprocess.run([program, *command, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=30)
    if result.returncode != 0:
        sys.exit(f"{program} {' '.join(command)} --help: status {result.returncode}\n{result.stderr}")
    return result.stdout


def options_of_help(text):
    """Options with their texts; a text goes on in the lines that are indented further than the options."""
    found, name = {}, None
    for line in text.splitlines():
        match = HELP_OPTION.match(line)
        if match:
            name = match[1]
            found[name] = [bool(match[2]), match[3]]
        elif name and line.startswith(" " * 8):
            found[name][1] += " " + line.strip()
        else:
            name = None
    return {name: Option(*value) for name, value in found.items() if name not in COMMON}


def commands_of_help(text):
    _, _, after = text.partition("Commands:\n")
    block = after.split("\n\n", 1)[0]
    return [match[1] for match in map(HELP_COMMAND.match, block.splitlines()) if match]


def plain(source):
    """A page without fonts and escapes: one string a line, requests kept."""
    source = re.sub(r"\\f(?:\[\w*\]|\(..|.)", "", source)
    return source.replace(r"\-", "-").replace(r"\&", "").replace(r"\(aq", "'").splitlines()


def options_of_page(path):
    """Options are the tags of .TP paragraphs that begin with a dash; a text ends at the next tag or section."""
    found, names, tag = {}, [], False
    for line in plain(tree.text(path)):
        if line.startswith((".SH", ".SS")):
            names = []
        elif line.startswith((".TP", ".TQ")):
            tag = True
            continue
        elif tag:
            tag = False
            line = re.sub(r"^\.[A-Z]+ ", "", line)
            names = []
            if line.startswith("-"):
                for name, argument in PAGE_OPTION.findall(line):
                    found[name] = [bool(argument), ""]
                    names.append(name)
            continue
        for name in names:
            found[name][1] += " " + re.sub(r"^\.[A-Z]+ ?", "", line)
    return {name: Option(*value) for name, value in found.items() if name not in COMMON}


def compare(page, said, written):
    problems = []
    for name in sorted(said.keys() | written.keys()):
        if name not in written:
            problems.append(f"{page}: --{name} of --help is missing")
        elif name not in said:
            problems.append(f"{page}: --{name} is not in --help")
        elif said[name].takes_argument != written[name].takes_argument:
            problems.append(f"{page}: --{name} takes an argument in one of page and --help only")
        elif said[name].default != written[name].default:
            problems.append(f"{page}: --{name}: default is {written[name].default!r} here, "
                            f"{said[name].default!r} in --help")
    return problems


def main():
    programs = sys.argv[1:]
    if not programs:
        sys.exit(__doc__)
    pages = {path.name: path for path in tree.files(".1")}
    problems, used = [], set()
    for program in programs:
        name = Path(program).name
        if not Path(program).exists():
            problems.append(f"{name}: not built")
            continue
        page = f"{name}.1"
        text = help_text(program)
        said = options_of_help(text)
        for command in commands_of_help(text):
            own = f"{name}-{command}.1"
            options = options_of_help(help_text(program, command))
            if own in pages:
                used.add(own)
                problems += compare(pages[own], options, options_of_page(pages[own]))
            else:
                said.update(options)
        if page not in pages:
            problems.append(f"{page}: missing; a page lies beside the program's source")
            continue
        used.add(page)
        problems += compare(pages[page], said, options_of_page(pages[page]))
    problems += [f"{path}: no program or command of that name" for name, path in pages.items() if name not in used]
    tree.finish(problems, len(used), "pages")


main()
