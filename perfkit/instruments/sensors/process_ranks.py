"""The ranks below a launcher.

torchrun gives each worker that it starts its number, as `RANK` in the environment. `torch.multiprocessing.spawn` calls
each worker's function with its index, which is in its stack.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import psutil

from perfkit.core.errors import PerfkitError
from perfkit.instruments.stacks.py_spy import dump_stacks
from perfkit.store.stacks import SampledThread

_RANK = "RANK"
# The call in a spawned process that calls the program's function, and its argument with the index.
_SPAWNED, _SPAWNED_FILE, _INDEX = "_wrap", "torch/multiprocessing/spawn.py", "i"


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


def find_spawned_ranks(threads: Iterable[SampledThread], parents: Mapping[int, int]) -> dict[int, int | None]:
    """The index of each process that `torch.multiprocessing` started, in their order; None where it is unknown.

    `parents` has the parent of each process below the launcher. The processes are found by the sampled stacks; the
    index is an argument of a call that they are in.
    """
    spawned = {
        thread.pid
        for thread in threads
        if any(_is_spawned_call(function.name, function.file) for function in thread.functions)
    }
    # What a rank forks has its stack, too.
    ranks = [pid for pid in sorted(spawned & parents.keys()) if spawned.isdisjoint(_list_ancestors(pid, parents))]
    indices = {pid: _read_spawn_index(pid) for pid in ranks}
    return dict(sorted(indices.items(), key=lambda item: (item[1] is None, item[1] or 0, item[0])))


def add_descendants(ranks: Mapping[int, int | None], parents: Mapping[int, int]) -> dict[int, int | None]:
    """`ranks` with the processes that each rank started."""
    of_each = {pid: next((up for up in (pid, *_list_ancestors(pid, parents)) if up in ranks), None) for pid in parents}
    return {**ranks, **{pid: ranks[rank] for pid, rank in of_each.items() if rank is not None}}


def _is_spawned_call(name: str, file: str) -> bool:
    return name == _SPAWNED and file.replace("\\", "/").endswith(_SPAWNED_FILE)


def _list_ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while pid in parents:
        pid = parents[pid]
        yield pid


def _read_spawn_index(pid: int) -> int | None:
    try:
        threads = dump_stacks(pid)
    except PerfkitError:  # it has ended
        return None
    calls = (call for thread in threads for call in thread["frames"])
    call: dict[str, Any] = next((call for call in calls if _is_spawned_call(call["name"], call["filename"])), {})
    values = (local["repr"] or "" for local in call.get("locals") or () if local["name"] == _INDEX)
    return next((int(value) for value in values if value.isdecimal()), None)


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
