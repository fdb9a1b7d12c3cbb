#!/usr/bin/env python3
"""Writes the C source of tracing_sites.h's table: for each event of the catalogue a function that hits its tracepoint in a
loop. An event that a set records only if a condition holds gets a second one, whose arguments do not meet it.

Usage: tracing_calls.py CATALOGUE
"""

import importlib.machinery
import importlib.util
import pathlib
import re
import sys


def load_catalogue(path):
    loader = importlib.machinery.SourceFileLoader("catalogue", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("catalogue", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def value(field, overridden, number):
    if field.name in overridden:
        return overridden[field.name]
    if field.type == "string":
        return '"sixteen letters."'
    return "0" if field.enum else f"({field.type}_t){number}"


def function(headers, name, event, overridden):
    """Fields that come in a struct are filled in before the loop: a real place does that only when somebody records."""
    struct = f"struct {event.provider}_{event.name}_fields"
    before, arguments = "", [value(field, overridden, "i") for field in event.fields]
    if struct + " {" in headers:
        members = ", ".join(f".{field.name} = {value(field, overridden, 1)}" for field in event.fields)
        before, arguments = f"    const {struct} fields = {{ {members} }};\n\n", ["&fields"]
    return (f"\nstatic void {name}(unsigned count)\n{{\n{before}    for (unsigned i = 0; i < count; i++) {{\n"
            "        TRACING_SITES_KEEP_LOOP;\n"
            f"        lttng_ust_tracepoint({', '.join([event.provider, event.name, *arguments])});\n    }}\n}}\n")


def variants(event):
    """(suffix, overridden fields): one that every condition lets through, and one that it stops."""
    yield "", {name: number for choice in event.choices if choice.filter
               for name, number in re.findall(r"^(\w+) == (\d+)$", choice.filter)}
    for choice in event.choices:
        if choice.filter:
            name, number = re.fullmatch(r"(\w+) == (\d+)", choice.filter).groups()
            yield " (filtered out)", {name: str(int(number) + 1)}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    providers = load_catalogue(sys.argv[1]).read_headers()
    include = pathlib.Path(sys.argv[1]).parent / "include" / "tracepoints"
    headers = "".join((include / provider.file).read_text() for provider in providers)
    out = ['/* Written by tracing_calls.py from the event catalogue. */\n#include "tracing_sites.h"\n']
    out += [f'#include "tracepoints/{provider.file}"\n' for provider in providers]
    table = []
    for provider in providers:
        for event in provider.events:
            for suffix, overridden in variants(event):
                name = f"{event.provider}_{event.name}{'_filtered' if suffix else ''}"
                out.append(function(headers, name, event, overridden))
                sets = ",".join(dict.fromkeys(choice.set for choice in event.choices))
                strings = sum(field.type == "string" for field in event.fields)
                table.append(f'    {{ "{event.provider}:{event.name}{suffix}", "{sets}", {len(event.fields)}, {strings}, '
                             f"{name} }},\n")
    out.append("\nconst struct tracing_site tracing_sites[] = {\n" + "".join(table) + "};\n")
    out.append(f"const unsigned tracing_site_count = {len(table)};\n")
    sys.stdout.write("".join(out))


if __name__ == "__main__":
    main()
