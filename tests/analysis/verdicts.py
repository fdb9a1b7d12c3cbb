"""The table of verdicts that tests leave behind: BUILD/verdicts.md, findings against recordings, made anew with each set of
rows. Each test that knows the truth about recordings writes its rows; recordings of vblkd itself as well as built ones.
"""

import json
import os
import tempfile
from pathlib import Path

BUILD = Path(os.environ["VBLKSCOPE"]).resolve().parents[1]
ROWS = BUILD / "verdicts"


def write_whole(path, text):
    """Other tests write at the same time."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def row(recording, wanted, found):
    """@wanted: ids that have to be found; @found: ids of errors and warnings that were, without those that may be."""
    return {"recording": recording, "wanted": sorted(set(wanted)), "found": sorted(set(found))}


def tell(source, rows):
    """Replace the rows of a test, and the table with them. Returns the table."""
    ROWS.mkdir(exist_ok=True)
    write_whole(ROWS / f"{source}.json", json.dumps(rows))
    everything = [entry for path in sorted(ROWS.glob("*.json")) for entry in json.loads(path.read_text())]
    table = make_table(everything)
    write_whole(BUILD / "verdicts.md", table)
    return table


def make_table(rows):
    ids = sorted({id for entry in rows for id in entry["wanted"] + entry["found"]})
    lines = ["# Findings against recordings of which the truth is known", "",
             "| finding | found where it is | missed | false alarms | silent where it is not |", "| --- | --- | --- | --- | --- |"]
    for id in ids:
        there = [entry for entry in rows if id in entry["wanted"]]
        missed = [entry["recording"] for entry in there if id not in entry["found"]]
        false = [entry["recording"] for entry in rows if id in entry["found"] and id not in entry["wanted"]]
        found = ", ".join(entry["recording"] for entry in there if id in entry["found"])
        lines.append(f"| `{id}` | {found or '-'} | {', '.join(missed) or '-'} | {', '.join(false) or '-'} | "
                     f"{len(rows) - len(there) - len(false)} |")
    healthy = [entry["recording"] for entry in rows if not entry["wanted"]]
    return "\n".join([*lines, "", f"{len(rows)} recordings, {len(healthy)} of them without a fault.", ""])
