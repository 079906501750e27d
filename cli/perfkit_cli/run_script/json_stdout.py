"""`perfkit run --json`: keeps standard output for the report, and sends what the script prints to standard error."""

import os
import sys
from pathlib import Path

from perfkit.store.layout import REPORT_JSON
from perfkit_cli.output.error_output import format_error_json

NO_REPORT = "run.no_report"


def divert_stdout() -> int:
    """Send standard output to standard error; returns a descriptor of the original."""
    sys.stdout.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    return original


def write_report_json(descriptor: int, folder: Path | None) -> None:
    """Write the report of a run, or why there is none, and close the descriptor."""
    path = None if folder is None else folder / REPORT_JSON
    if path is not None and path.is_file():
        _write(descriptor, path.read_bytes())
    else:
        reason = "nothing was recorded" if folder is None else f"{folder} holds no report; perfkit report writes it"
        write_error_json(descriptor, NO_REPORT, reason)


def write_error_json(descriptor: int, id: str, message: str) -> None:
    """Write an error as other commands do, and close the descriptor."""
    _write(descriptor, format_error_json(id, message).encode() + b"\n")


def _write(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
