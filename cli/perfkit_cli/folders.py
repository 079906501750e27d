"""Folders that reports are written to."""

from pathlib import Path

from perfkit.errors import UsageError


def refuse_foreign(folder: Path, marker: str, command: str) -> None:
    """An earlier report of `command`, told by the file `marker`, is replaced; a folder with anything else in it is not
    touched.
    """
    if not folder.exists() or (folder / marker).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise UsageError(f"{folder} exists already and holds no report of `{command}`: name another folder with --out")
