"""Reading a check back: `check.json`, strictly."""

from pathlib import Path

from perfkit.check.result import Check
from perfkit.files import read_json
from perfkit.store.summary import CHECK_FILE


def read_check(path: Path) -> Check:
    """The check of a `check.json`, or of the folder that holds one.

    Raises `RunFormatError` for what is no check, is damaged, or is in another format.
    """
    return read_json(path / CHECK_FILE if path.is_dir() else path, Check, remedy="check again")
