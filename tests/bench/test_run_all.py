#!/usr/bin/env python3
"""Goal: figures come into documents where they belong, and all of them or none.

Method: made-up results and documents in a directory of their own; a benchmark that looks where it is run. If it fails:
`sh tests/run bench --figures` damages a document, shows the figures of another group, or cannot run a benchmark.
"""

import pathlib
import sys
import tempfile

import run_all

LOCK = """About locks.

| Alone | OLD | NEW |
| --- | ---: | ---: |
| a turn | 1 ns | 2 ns |

A note.

| Alone and crowded | OLD | NEW |
| --- | ---: | ---: |
| a turn | 3 ns | 4 ns |

| Handed over | OLD | NEW |
| --- | ---: | ---: |
| a turn | 5 ns | 6 ns |
"""
MACHINE = {"machine": {"date": "2000-01-02T03:04:05", "cores": 2, "kernel": "Linux 1", "compiler": "cc"}}
DOCUMENT = "before\n\n<!-- figures: {} -->\n\nold figures\n\n<!-- end of figures -->\n\nafter\n"


def written(directory, wanted, document=DOCUMENT):
    """What becomes of two documents, the second of which is always good."""
    paths = [directory / "room" / "README.md", directory / "README.md"]
    texts = [document.format(wanted), DOCUMENT.format("lock/Handed")]
    for path, text in zip(paths, texts):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    try:
        run_all.write_figures(directory / "bench", [MACHINE])
    except run_all.Fault as fault:
        assert [path.read_text() for path in paths] == texts, f"changed in spite of: {fault}"
        return str(fault)
    assert "5 ns" in paths[1].read_text()
    return paths[0].read_text()


def main():
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        run_all.ROOT = directory
        (directory / "bench").mkdir()
        (directory / "build").mkdir()
        (directory / "build" / "README.md").write_text(DOCUMENT.format("mutex"))  # not ours
        (directory / "bench" / "lock.md").write_text(LOCK)

        text = written(directory, "machine; lock/Alone")
        assert text.startswith("before\n\n<!-- figures: machine; lock/Alone -->\n\nMeasured on 2000-01-02,"), text
        assert text.endswith("| a turn | 3 ns | 4 ns |\n\n<!-- end of figures -->\n\nafter\n"), text
        assert "A note." in text and "5 ns" not in text and "old figures" not in text and "About" not in text, text
        assert written(directory, "lock", text.replace("machine; lock/Alone", "{}")).count("ns |") == 6  # again, and all of it

        assert "no such benchmark" in written(directory, "mutex")
        assert "it has Alone, Alone and crowded, Handed over" in written(directory, "lock/Absent")
        assert "no '<!-- end of figures -->'" in written(directory, "lock", DOCUMENT.replace("end of figures", "end"))

        (directory / "bench" / "program").write_text("exit 7\n")
        benchmark = {"name": "here", "cmd": ["sh", "program"], "workdir": None, "env": {}, "timeout": 60}
        assert run_all.run(benchmark, [], directory / "bench") == 7
    return 0


sys.exit(main())
