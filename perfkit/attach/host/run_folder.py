"""The folder of a run that perfkit was attached to."""

from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path

from perfkit.core.errors import UsageError
from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import PLAN_FILE

RUNS = Path("runs")
_LONGEST = 50  # characters of up to four bytes, of the 255 bytes that file systems allow


def name_default_folder(name: str, now: datetime) -> Path:
    """`runs/2026-01-31-120000-train`. Of a name that is too long for a folder's the beginning."""
    return RUNS / f"{now:%Y-%m-%d-%H%M%S}-{name[:_LONGEST]}"


def remove_unused(folder: Path) -> None:
    """Remove a folder in which nothing was written, if it exists."""
    with suppress(OSError):  # it is not there, or not empty
        folder.rmdir()


def claim_folder(wanted: Path) -> Path:
    """`wanted`, or where that holds a run already the first free of `wanted-2`, `wanted-3`, ..., as an absolute path.

    It is claimed by an empty `suite.json`, which no other process can have made then.
    """
    for number in count(1):
        folder = (wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            (folder / SUITE_FILE).open("x").close()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("the run folders are numbered without end")


def find_plan(folder: Path) -> Path:
    """The plan that `perfkit plan` has left in a folder, by an absolute path: a program may go elsewhere.

    Raises:
        UsageError: there is none.
    """
    file = (folder / PLAN_FILE).absolute()
    if not file.is_file():
        raise UsageError(f"no plan in {folder}; make one with perfkit plan --out {folder}")
    return file
