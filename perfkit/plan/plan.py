"""What each variant of a bench would need, before anything is trained."""

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from perfkit.analysis.memory.account import account
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.plan import Peak, PlannedVariant
from perfkit.errors import UnavailableError
from perfkit.measure.bench import min_world_size, refusal_of
from perfkit.measure.schedule import ScheduledRun, bench_schedule
from perfkit.plan.rehearsal import rehearse
from perfkit.plan.target import CPU, Target
from perfkit.store.request import BenchRequest


def plan(request: BenchRequest, target: Target = CPU) -> Iterator[PlannedVariant]:
    """The variants of a bench on a device one after the other, baselines first, as soon as each is known."""
    return (planned(run, target) for run in bench_schedule(request, min_world_size, refusal_of).runs)


def planned(run: ScheduledRun, target: Target = CPU) -> PlannedVariant:  # noqa: ARG001
    """One variant of a bench on a device; with the reason where it cannot be planned."""
    variant = partial(PlannedVariant, name=run.spec.variant, world_size=run.spec.launch.world_size)
    if run.skip:
        return variant(reason=run.skip)
    try:
        rehearsed = rehearse(run.spec)
    except UnavailableError as error:
        return variant(reason=str(error))
    held = account(rehearsed.allocations)
    return variant(
        peak_allocated_bytes=None if held is None else _peak(held),
        untried=rehearsed.untried,
        assumptions=rehearsed.assumptions,
        memory=None if held is None else replace(held, timed=False),
    )


def _peak(held: MemoryAccount) -> Peak:
    return Peak(
        value=held.peak_bytes,
        low=held.peak_bytes,
        high=held.peak_bytes,
        phase=held.peak_phase,
        categories={share.category: share.bytes for share in held.categories},
    )
