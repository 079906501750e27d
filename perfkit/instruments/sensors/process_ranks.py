"""The ranks below a launcher: torchrun gives each worker that it starts its number, as `RANK` in the environment."""

from collections.abc import Mapping

import psutil

_RANK = "RANK"


def find_ranks(launcher: psutil.Process, children: list[psutil.Process]) -> dict[int, int]:
    """The rank of each process below `launcher` that is one or was started by one (a loader's worker), by process id.

    `children` are all descendants. Empty for a process that is a rank itself, or that started none.
    """
    if _read_rank(launcher) is not None:
        return {}
    return {child.pid: rank for child in children if (rank := _read_rank(child)) is not None}


def list_rank_processes(ranks: Mapping[int, int], children: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that are ranks themselves: no process above them has a number."""
    return [child for child in children if child.pid in ranks and _read_parent(child) not in ranks]


def _read_rank(process: psutil.Process) -> int | None:
    """None where it has none, has ended, or may not be read."""
    try:
        value = process.environ().get(_RANK, "")
    except (psutil.Error, OSError):
        return None
    return int(value) if value.isdecimal() else None


def _read_parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None
