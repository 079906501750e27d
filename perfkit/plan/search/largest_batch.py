"""Finds the largest batch that fits by plan: doubling, then bisection, without runs."""

from collections.abc import Callable
from functools import partial

from perfkit.analysis.model.plan import LargestBatch, PlannedBatch
from perfkit.core.spec import format_variant_label
from perfkit.measure.largest_batch import find_largest_fitting, set_batch_size
from perfkit.measure.schedule import ScheduledRun, Techniques
from perfkit.plan.target.target import Target
from perfkit.plan.variants.plan import plan_variant, schedule_run
from perfkit.store.request import BenchRequest


def plan_largest_batch(
    request: BenchRequest,
    techniques: Techniques,
    target: Target,
    *,
    margin: float,
    first: int,
    most: int,
    with_batches: bool = False,
    progress: Callable[[PlannedBatch], None] = lambda _: None,
) -> LargestBatch:
    """The largest batch of one variant of a request that leaves the share `margin` of the target's limit free.

    A size fits if its planned memory fits at the upper bound.

    Args:
        request: the variant's request.
        techniques: the variant's techniques.
        target: the device, with a limit.
        margin: share of the limit.
        first: the first size.
        most: the largest size to plan.
        with_batches: include the batches that a bench keeps in main memory.
        progress: receives every size.
    """
    assert target.limit_bytes is not None
    sizes: list[PlannedBatch] = []
    # Planned under what is usable: an allocator gives its free segments back before it takes more. The margin is one of
    # what torch tells of a GPU, as that of a search by runs is: what the driver keeps comes off as well.
    usable = target.shrink_limit(margin)

    def fits(size: int) -> bool | None:
        sizes.append(
            _plan_size(size, schedule_run(request, set_batch_size(techniques, size), target), usable, with_batches)
        )
        progress(sizes[-1])
        return sizes[-1].fits

    largest = find_largest_fitting(fits, first, most)
    return LargestBatch(
        variant=format_variant_label(techniques),
        size=largest or None,
        limit_bytes=target.limit_bytes,
        margin=margin,
        most=most,
        sizes=tuple(sizes),
    )


def _plan_size(size: int, run: ScheduledRun, target: Target, with_batches: bool) -> PlannedBatch:
    assert target.limit_bytes is not None
    variant = plan_variant(run, target)
    make_batch = partial(PlannedBatch, size=size, needed_bytes=variant.needed_bytes)
    if variant.needed_bytes is None:
        return make_batch(fits=None, reason=variant.reason)
    beside = variant.batches_bytes if with_batches else 0
    return make_batch(fits=variant.needed_bytes.high + beside <= target.limit_bytes)
