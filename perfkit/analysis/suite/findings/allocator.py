"""Rules about what the caching allocator did while steps were timed, without an instrument."""

from collections.abc import Iterator
from typing import NamedTuple

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.analysis.trace.roofline.fact_bounds import Facts, get_bounds
from perfkit.core.texts.name_lists import list_first

# Fewer calls of the driver in all timed steps are those of a late allocation, not of every step.
MANY = 10
_NAMED = 4
_RETRIES, _FAILED, _ALLOCATED, _FREED = (
    "allocation_retries", "caught_out_of_memory", "device_allocations", "device_frees",
)  # fmt: skip


class _Counts(NamedTuple):
    """Counts in the timed steps of the rank with most."""

    variant: str
    retries: int
    failed: int
    allocated: int
    freed: int


def find_retries(suite: SuiteView) -> Iterator[Finding]:
    """The first variant, the baseline before others, whose allocator ran out of memory; names the rest."""
    short = [counts for counts in _list_counts(suite) if counts.retries or counts.failed]
    if not short:
        return
    first, *others = short
    failed = f", {first.failed:,} requests failed and were caught" if first.failed else ""
    also = f"; also {list_first([f'{each.variant} ({each.retries:,})' for each in others], _NAMED)}" if others else ""
    yield Finding(
        id="memory.allocation_retries",
        severity="warning",
        title=f"{first.variant}: allocator ran out of memory {first.retries + first.failed:,} times",
        variant=first.variant,
        evidence=f"in the timed steps it emptied its cache {first.retries:,} times to serve a request{failed}; "
        f"{first.allocated:,} allocations and {first.freed:,} frees of the driver{also}",
        action="Leave memory free: a smaller batch, checkpointing, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
        "against fragmentation.",
        figures={
            "retries": first.retries,
            "failed": first.failed,
            "device_allocations": first.allocated,
            "device_frees": first.freed,
        },
    )


def find_device_allocations(suite: SuiteView) -> Iterator[Finding]:
    """The first variant that takes memory from the driver although it has not run out; names the rest."""
    taking = [counts for counts in _list_counts(suite) if counts.allocated >= MANY and not counts.retries]
    if not taking:
        return
    first, *others = taking
    also = f"; also {list_first([f'{each.variant} ({each.allocated:,})' for each in others], _NAMED)}" if others else ""
    yield Finding(
        id="memory.device_allocations",
        severity="note",
        title=f"{first.variant}: {first.allocated:,} driver allocations in timed steps",
        variant=first.variant,
        evidence=f"{first.allocated:,} allocations and {first.freed:,} frees after the warm-up, each of which may wait "
        f"for the device{also}",
        action="Keep shapes constant from step to step, warm up longer, and call torch.cuda.empty_cache() outside of "
        "steps.",
        figures={"device_allocations": first.allocated, "device_frees": first.freed},
    )


def _list_counts(suite: SuiteView) -> list[_Counts]:
    counts = []
    for variant in (*suite.baselines, *suite.measured):
        ranks = suite.passes[variant.name].facts if variant.name in suite.passes else ()
        known = [facts for facts in ranks if _RETRIES in facts]
        if known:
            most = max(known, key=lambda facts: (_get(facts, _RETRIES), _get(facts, _ALLOCATED)))
            counts.append(
                _Counts(variant.name, *(_get(most, name) for name in (_RETRIES, _FAILED, _ALLOCATED, _FREED)))
            )
    return counts


def _get(facts: Facts, name: str) -> int:
    """A count; 0 where this release of torch does not have it."""
    return int(get_bounds(facts[name]).low) if name in facts else 0
