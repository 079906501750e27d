"""What ranks would exchange in a step: its collectives on fake ranks, whose bytes tests know by hand."""

from collections.abc import Callable
from typing import TypeVar

from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.plan.rehearsal.step_ops import StepCollective

Key = TypeVar("Key")


def kind_and_phase(collective: StepCollective) -> tuple[str, str]:
    return collective.message.kind.value, collective.phase


def kind_and_ranks(collective: StepCollective) -> tuple[str, int]:
    return collective.message.kind.value, collective.ranks


def planned_bytes(
    variant: str, workload: WorkloadSpec, ranks: int, key: Callable[[StepCollective], Key]
) -> dict[Key, float]:
    """Bytes of the collectives of a rank's step, by what `key` tells of each."""
    (techniques,) = parse_variants(variant)
    rehearsed = rehearse_step(RunSpec(workload=workload, techniques=techniques, launch=LaunchSpec(world_size=ranks)))
    sums: dict[Key, float] = {}
    for each in rehearsed.issued:
        if isinstance(each, StepCollective):
            sums[key(each)] = sums.get(key(each), 0.0) + each.message.bytes
    return sums
