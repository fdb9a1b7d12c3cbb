"""The published schema of reports (analysis/report/report.schema.json), for every test that has a report at hand."""

import json
import os
import sys
from pathlib import Path

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is missing")
    sys.exit(77)

SCHEMA_PATH = Path(__file__).resolve().parents[3] / "analysis/report/report.schema.json"
SCHEMA = json.loads(SCHEMA_PATH.read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def breaches(report):
    """What is wrong with a report, one string each: where, and why."""
    for error in VALIDATOR.iter_errors(report):
        yield f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
