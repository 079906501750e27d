"""Runs work on many items: in processes of this machine, or as tasks of a Ray cluster.

Both give results as they come, in no fixed order, and an item that fails does not stop the others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from perfkit.analysis.parallel import ray_tasks, worker_processes
from perfkit.core.errors import PerfkitError, make_unknown_name_error

Item = TypeVar("Item")
Result = TypeVar("Result")

PROCESSES = "processes"
RAY = "ray"
ENGINES = (PROCESSES, RAY)


def run_parallel(
    function: Callable[[Item], Result], items: Sequence[Item], *, engine: str = PROCESSES, jobs: int | None = None
) -> Iterator[tuple[Item, Result | PerfkitError]]:
    """Apply `function` to every item; yield each item with its result, or with the error that it met.

    Args:
        function: importable by name, for it is sent to other processes; so are items and results.
        items: errors name them by their text. One that stands for a file is a path or `os.PathLike`; on Ray it must be
            absolute and readable on every node.
        engine: one of `ENGINES`. A single item under `processes` is worked on in this process.
        jobs: how many items at once; by default what cores and memory allow.

    A `PerfkitError` raised by the function, and a process that ended under it, are that item's result. Other exceptions
    are faults of the function: in this process they propagate, elsewhere they end the process. Leaving the iterator
    early, also by Ctrl-C, ends all work at once.
    """
    if engine not in ENGINES:
        raise make_unknown_name_error("engine", engine, ENGINES)
    if engine == RAY:
        return ray_tasks.run_on_ray(function, items, jobs)
    return worker_processes.run_in_processes(function, items, jobs)
