"""Reading a check back: `check.json`, strictly."""

from pathlib import Path
from typing import Any

from perfkit.analysis.trace.read_analysis import migrate_gap_causes, migrate_row_kinds
from perfkit.check.result import Check
from perfkit.files import Migrations, read_json
from perfkit.store.summary import CHECK_FILE


def read_check(path: Path) -> Check:
    """The check of a `check.json`, or of the folder that holds one.

    Raises `RunFormatError` for what is no check, is damaged, or was written by a newer perfkit.
    """
    return read_json(path / CHECK_FILE if path.is_dir() else path, Check, _MIGRATIONS)


def _drop_splits(check: dict[str, Any]) -> None:
    """Format 2 has no splits of the sides' traced steps, which nothing showed."""
    for variant in check["variants"]:
        for name in ("before_split", "after_split"):
            ((variant.get("why") or {}).get("time") or {}).pop(name, None)


def _merge_row_kinds(check: dict[str, Any]) -> None:
    for variant in check["variants"]:
        time = (variant.get("why") or {}).get("time")
        if time:
            migrate_row_kinds(time["before_trace"])


def _add_gap_causes(check: dict[str, Any]) -> None:
    for variant in check["variants"]:
        time = (variant.get("why") or {}).get("time")
        if time:
            migrate_gap_causes(time["before_trace"])


_MIGRATIONS: Migrations = {1: _drop_splits, 2: _merge_row_kinds, 4: _add_gap_causes}
