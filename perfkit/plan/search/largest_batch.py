"""Finds the largest batch or sequence that fits by plan, without runs; trial runs begin their search there."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import psutil

from perfkit.analysis.model.plan import LargestSize, PlannedSize
from perfkit.core.errors import UsageError
from perfkit.core.fit_search import Trials
from perfkit.core.spec import format_variant_label
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.machine.device_choice import find_device
from perfkit.measure.bench import compute_needed_ranks
from perfkit.measure.largest_batch import search_batch_sizes, set_technique
from perfkit.measure.rank.limits import MARGIN
from perfkit.measure.redundant_size import read_batch_size
from perfkit.measure.schedule import Techniques, choose_world_size
from perfkit.measure.world_sizes import set_world_size
from perfkit.plan.search.sizes import SIZES
from perfkit.plan.target.target import CPU, Target, find_local_target
from perfkit.plan.variants.plan import PlanRun, plan_variant, schedule_run
from perfkit.store.request import BenchRequest

# Per compute thread: a stack (`ulimit -s`), and an arena of glibc's malloc (HEAP_MAX_SIZE).
_ADDRESSES_OF_A_THREAD = (8 + 64) * 2**20


def plan_largest_size(
    request: BenchRequest,
    techniques: Techniques,
    target: Target,
    *,
    margin: float,
    first: int,
    most: int,
    size: str = "batch_size",
    with_batches: bool = False,
    plan: PlanRun | None = None,
    progress: Callable[[PlannedSize], None] = lambda _: None,
) -> LargestSize:
    """The largest batch or sequence of one variant of a request that leaves the share `margin` of the limit free.

    A size fits if its planned memory fits at the upper bound.

    Args:
        request: the variant's request.
        techniques: the variant's techniques.
        target: the device, with a limit.
        margin: share of the limit.
        first: the first size.
        most: the largest size to plan.
        size: a key of `SIZES`.
        with_batches: include the batches that a bench keeps in main memory.
        plan: plans one size, `plan_variant` without it.
        progress: receives every size.
    """
    assert target.limit_bytes is not None
    # Planned under what is usable: an allocator gives its free segments back before it takes more. The margin is one of
    # what torch tells of a GPU, as that of a search by runs is: what the driver keeps comes off as well.
    usable = target.shrink_limit(margin)
    assert usable.limit_bytes is not None
    usable_bytes = usable.limit_bytes

    def plan_size(value: int) -> PlannedSize:
        sized = set_technique(techniques, SIZES[size].make_spec(value))
        variant = (plan or plan_variant)(schedule_run(request, sized, target), usable)
        needed = variant.needed_bytes
        if needed is None:
            return PlannedSize(size=value, fits=None, variant=variant.name, reason=variant.reason)
        beside = variant.batches_bytes if with_batches else 0
        fits = needed.high + beside <= usable_bytes
        return PlannedSize(size=value, fits=fits, variant=variant.name, needed_bytes=needed)

    trials: Trials[int, PlannedSize] = Trials(plan_size, int, progress)
    return LargestSize(
        variant=format_variant_label(techniques),
        parameter=size,
        size=search_batch_sizes(lambda value: trials.try_candidate(value).fits, first, most),
        limit_bytes=target.limit_bytes,
        margin=margin,
        most=most,
        sizes=tuple(trials.results.values()),
    )


def predict_batch(request: BenchRequest, techniques: Techniques, most: int) -> int | None:
    """The largest batch up to `most` that is planned to fit where `request` runs; None where that is not known.

    The limit is that of the search, less its margin: on a CPU `--memory-limit`, or else each rank's share of what is
    available on this machine, less what a process takes beside tensors; a GPU's own memory. Not verified on a GPU yet.
    """
    ranks, lacking = choose_world_size(request, compute_needed_ranks(techniques))
    on_cpu = is_cpu(request.device)
    target = None if lacking else _make_cpu_target(request, ranks) if on_cpu else _make_gpu_target(request)
    if target is None:
        return None
    of_ranks, margin = set_world_size(request, ranks), 0.0 if on_cpu else MARGIN
    first = read_batch_size(request.workload, request.device) or 1
    largest = plan_largest_size(
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


def estimate_process_bytes(threads: int, *, addresses: bool) -> int:
    """Non-tensor bytes of a rank's process: address space with `addresses`, else resident memory."""
    memory = _read_process_memory()
    return int(memory.vms + threads * _ADDRESSES_OF_A_THREAD if addresses else memory.rss)


@lru_cache(maxsize=1)
def _read_process_memory() -> Any:
    """Memory of this process, which has a run's imports; at the first call, so plans' own memory does not count."""
    return psutil.Process().memory_info()
