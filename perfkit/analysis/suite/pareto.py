"""The variants that no other beats in throughput and memory at once."""

from collections.abc import Sequence

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Variant
from perfkit.core.record.quantity import get_value
from perfkit.core.record.rank_record import RunStatus


def find_pareto_front(variants: Sequence[Variant]) -> tuple[str, ...]:
    """Names of the variants on the front, highest throughput first.

    Only variants that ended well and are not shown to have done nothing compete: those with a failed or
    undecided claim do not, baselines do. A variant is off the front if another has at least its throughput with
    at most its peak memory, and is better in one of them.
    """
    points = [
        (variant.name, variant.throughput.value, memory)
        for variant in variants
        if variant.status == RunStatus.OK
        and (variant.is_baseline or variant.active is True)
        and not variant.emulation_reason
        and isinstance(variant.throughput, MedianEstimate)
        and (memory := get_value(variant.peak_allocated)) is not None
    ]
    front = [
        (name, rate)
        for name, rate, memory in points
        if not any(
            other_rate >= rate and other_memory <= memory and (other_rate > rate or other_memory < memory)
            for _, other_rate, other_memory in points
        )
    ]
    return tuple(name for name, _ in sorted(front, key=lambda item: -item[1]))
