"""For benchmarks that are scripts: the same rows, statistics and output as compare.h, which this calls.

    bench = Bench("device", "What is measured and how.")        # reads the command line
    group = bench.group("Depth 1", "always", "blocking-only")
    row = group.row("requests", "requests/s", HIGHER)
    bench.compare(row, old_sample, new_sample, pairs=7)          # functions that give a figure, called in turn
    row.target(OF_CHANGE, 10)
    sys.exit(bench.finish())

The library is named by $BENCH_COMPARE, which the build sets; by hand:
    meson devenv -C build python3 $PWD/tests/bench/bench_device.py
"""

import argparse
import ctypes
import os
import signal
import sys

LOWER, HIGHER = 0, 1
CHANGE, TIMES, FIGURE = 0, 1, 2
OF_NEW, OF_CHANGE, OF_TIMES = 0, 1, 2


def _library():
    if "BENCH_COMPARE" not in os.environ:
        sys.exit("$BENCH_COMPARE is not set: run it with `meson devenv -C build python3 $PWD/tests/bench/...`")
    library = ctypes.CDLL(os.environ["BENCH_COMPARE"])
    text, pointer, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_double
    shapes = {
        "bench_begin": (pointer, [text, text, pointer, ctypes.c_int, ctypes.POINTER(text)]),
        "bench_group": (pointer, [pointer, ctypes.c_int, text, text, text]),
        "bench_note": (None, [pointer, text]),
        "bench_detail": (None, [pointer]),
        "bench_row": (pointer, [pointer, text, text, ctypes.c_int]),
        "bench_pair": (None, [pointer, number, number]),
        "bench_value": (None, [pointer, number]),
        "bench_words": (None, [pointer, text, text]),
        "bench_unavailable": (None, [pointer, text]),
        "bench_target": (None, [pointer, ctypes.c_int, number]),
        "bench_promise": (None, [pointer, text, ctypes.c_bool]),
        "bench_finish": (ctypes.c_int, [pointer]),
    }
    for name, (result, arguments) in shapes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _bytes(text):
    return None if text is None else text.encode()


def _end_by_signal(number, frame):
    raise SystemExit(f"ended by signal {number}")


class Row:
    """See compare.h for what each means."""

    def __init__(self, library, handle):
        self._library, self._handle = library, handle

    def pair(self, old_value, new_value):
        self._library.bench_pair(self._handle, old_value, new_value)

    def value(self, value):
        self._library.bench_value(self._handle, value)

    def words(self, old_words, new_words):
        self._library.bench_words(self._handle, _bytes(old_words), _bytes(new_words))

    def unavailable(self, reason):
        self._library.bench_unavailable(self._handle, _bytes(reason))

    def target(self, of, bound):
        self._library.bench_target(self._handle, of, bound)

    def promise(self, words, met):
        self._library.bench_promise(self._handle, _bytes(words), met)


class Group:
    def __init__(self, library, handle):
        self._library, self._handle = library, handle

    def row(self, name, unit, better):
        return Row(self._library, self._library.bench_row(self._handle, _bytes(name), _bytes(unit), better))

    def note(self, text):
        self._library.bench_note(self._handle, _bytes(text))

    def detail(self):
        self._library.bench_detail(self._handle)


class Bench:
    """@add_options is given the argparse parser, for options of its own; self.options holds what was said."""

    def __init__(self, name, about, add_options=None):
        parser = argparse.ArgumentParser(prog=f"bench_{name}", description=about)
        parser.add_argument("--json", metavar="FILE", nargs="?", const="", help="print JSON instead of a table, or write it "
                            "to FILE beside the table")
        parser.add_argument("--markdown", metavar="FILE", nargs="?", const="", help="the same with Markdown")
        parser.add_argument("--quick", action="store_true", help="only show that it works; the figures say nothing")
        if add_options:
            add_options(parser)
        self.options = parser.parse_args()
        words = [f"bench_{name}"]
        for option in ("json", "markdown"):
            value = getattr(self.options, option)
            if value is not None:
                words.append(f"--{option}={value}" if value else f"--{option}")
        if self.options.quick:
            words.append("--quick")
        signal.signal(signal.SIGTERM, _end_by_signal)  # unwind, so that nothing that was started stays behind
        self._library = _library()
        argv = (ctypes.c_char_p * (len(words) + 1))(*map(str.encode, words))
        self._handle = self._library.bench_begin(_bytes(name), _bytes(about), None, len(words), argv)

    @property
    def quick(self):
        return self.options.quick

    def pairs(self, usual):
        return 2 if self.quick else usual

    def group(self, title, old_label, new_label, form=CHANGE):
        return Group(self._library, self._library.bench_group(self._handle, form, _bytes(title), _bytes(old_label),
                                                              _bytes(new_label)))

    def alternate(self, samples, rounds):
        """[one list of results for each function], each called once a round, every second round in reverse order."""
        results = [[] for _ in samples]
        for number in range(rounds):
            order = range(len(samples))
            for index in reversed(order) if number % 2 else order:
                results[index].append(samples[index]())
        return results

    def compare(self, row, old_sample, new_sample, pairs):
        for old_value, new_value in zip(*self.alternate([old_sample, new_sample], pairs)):
            row.pair(old_value, new_value)

    def finish(self):
        sys.stdout.flush()
        return self._library.bench_finish(self._handle)
