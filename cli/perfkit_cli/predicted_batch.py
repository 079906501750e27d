"""Where `batch:auto` begins: at the largest batch that fits by the plan."""

import os
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from perfkit.measure.schedule import Techniques
    from perfkit.store.request import BenchRequest


def predicted_batch(request: "BenchRequest", techniques: "Techniques", most: int) -> int | None:
    """The largest batch up to `most` that is planned to fit where `request` runs; None where that is not known.

    The limit is that of the search, less its margin and what a process takes beside tensors: `--memory-limit`, or else
    what is available on this machine, of which each rank has its share.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # what Kineto says of its recordings is no part of a bench

    from perfkit.measure.bench import batch_size, min_world_size
    from perfkit.measure.limits import MARGIN
    from perfkit.measure.schedule import world_size_for
    from perfkit.plan.host_process import beside_tensors
    from perfkit.plan.largest import largest_batch
    from perfkit.plan.target import CPU

    if request.device != "cpu":
        return None
    ranks, _ = world_size_for(request, min_world_size(techniques))
    limit = request.memory_limit_bytes or psutil.virtual_memory().available // ranks
    threads = request.threads or max(1, request.cores // ranks)
    beside = beside_tensors(threads, addresses=request.memory_limit_bytes is not None)
    usable = int((1 - MARGIN) * limit) - beside
    if usable <= 0:
        return None
    target = CPU._replace(limit_bytes=usable)
    first = batch_size(request.workload, request.device) or 1
    return largest_batch(request, techniques, target, margin=0.0, first=first, most=most).size
