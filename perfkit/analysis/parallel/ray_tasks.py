"""Items spread over a Ray cluster, for traces of more ranks than one machine can read in good time."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perfkit.analysis.parallel.worker_processes import try_item
from perfkit.core.errors import PerfkitError
from perfkit.core.ray_cluster import connect_ray, get_last_line

Item = TypeVar("Item")
Result = TypeVar("Result")

# Submitted at once per CPU of the cluster: enough that none waits for the next item, few enough that neither tasks nor
# finished results pile up.
_IN_FLIGHT_PER_CPU = 2


def run_on_ray(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int | None = None
) -> Iterator[tuple[Item, Result | PerfkitError]]:
    """Run tasks on Ray: see `engines.run`. Raises the errors of `connect_ray`."""
    ray, connected_here = connect_ray()
    # A node that is lost does not cost its items: working on a trace twice does no harm.
    task = ray.remote(num_cpus=1, max_retries=2)(_run_task)
    waiting = iter(items)
    running: dict[Any, Item] = {}
    try:
        while True:
            limit = jobs or _IN_FLIGHT_PER_CPU * max(1, int(ray.cluster_resources().get("CPU", 1)))
            for item in _take_up_to(limit - len(running), waiting):
                running[task.remote(function, item)] = item
            if not running:
                return
            ready, _ = ray.wait(list(running), num_returns=1)
            item = running.pop(ready[0])
            yield item, _fetch_result(ray, ready[0], item)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if connected_here:
            ray.shutdown()


def _take_up_to(count: int, items: Iterator[Item]) -> Iterator[Item]:
    for _, item in zip(range(count), items, strict=False):
        yield item


def _run_task(function: Callable[[Item], Result], item: Item) -> Result | PerfkitError:
    """Run a task on a node of the cluster."""
    if _is_missing(item):
        return PerfkitError(
            f"{item}: not readable on node {socket.gethostname()}: with the engine ray, traces must be on storage "
            "that every node mounts at the same path, or be URLs"
        )
    return try_item(function, item)


def _is_missing(item: object) -> bool:
    """True if the item names a file that is missing here."""
    path = os.fspath(item) if isinstance(item, str | os.PathLike) else None
    return isinstance(path, str) and "://" not in path and not Path(path).exists()


def _fetch_result(ray: Any, reference: Any, item: object) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return PerfkitError(f"{item}: failed on Ray: {get_last_line(error)}")
