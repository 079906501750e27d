"""Predicts the start of a search for the largest batch: the largest that fits by plan."""

import psutil
from msgspec.structs import replace

from perfkit.core.errors import UsageError
from perfkit.devices.machine.device_choice import find_device
from perfkit.measure.bench import compute_needed_ranks
from perfkit.measure.rank.limits import MARGIN
from perfkit.measure.redundant_size import read_batch_size
from perfkit.measure.schedule import Techniques, choose_world_size
from perfkit.plan.gpu_memory.host_process import estimate_process_bytes
from perfkit.plan.search.largest_batch import plan_largest_batch
from perfkit.plan.target.target import CPU, Target, find_local_target
from perfkit.store.request import BenchRequest


def predict_batch(request: BenchRequest, techniques: Techniques, most: int) -> int | None:
    """The largest batch up to `most` that is planned to fit where `request` runs; None where that is not known.

    The limit is that of the search, less its margin: on a CPU `--memory-limit`, or else each rank's share of what is
    available on this machine, less what a process takes beside tensors; a GPU's own memory. Not verified on a GPU yet.
    """
    ranks, lacking = choose_world_size(request, compute_needed_ranks(techniques))
    on_cpu = request.device == "cpu"
    target = None if lacking else _make_cpu_target(request, ranks) if on_cpu else _make_gpu_target(request)
    if target is None:
        return None
    of_ranks, margin = replace(request, world_size=ranks, world_sizes=()), 0.0 if on_cpu else MARGIN
    first = read_batch_size(request.workload, request.device) or 1
    largest = plan_largest_batch(
        of_ranks, techniques, target, margin=margin, first=first, most=most, with_batches=on_cpu
    )
    return largest.size


def _make_cpu_target(request: BenchRequest, ranks: int) -> Target | None:
    limit = request.memory_limit_bytes or psutil.virtual_memory().available // ranks
    threads = request.threads or max(1, request.cores // ranks)
    usable = int((1 - MARGIN) * limit) - estimate_process_bytes(
        threads, addresses=request.memory_limit_bytes is not None
    )
    return CPU._replace(limit_bytes=usable) if usable > 0 else None


def _make_gpu_target(request: BenchRequest) -> Target | None:
    try:
        return find_local_target(request.device, find_device(request.device).name)
    except UsageError:  # several memory sizes, and the driver does not report which
        return None
