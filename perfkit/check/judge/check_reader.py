"""Reads `check.json`, strictly."""

from pathlib import Path

from perfkit.check.judge.result import Check
from perfkit.core.files import read_json
from perfkit.store.summary import CHECK_FILE


def read_check(path: Path) -> Check:
    """The check in a `check.json` file or its folder.

    Raises `RunFormatError` if the file is no check, damaged, or in another format.
    """
    return read_json(path / CHECK_FILE if path.is_dir() else path, Check, remedy="check again")
