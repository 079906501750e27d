"""What each variant of a bench would need, before anything is trained."""

from collections.abc import Iterator
from functools import partial

from perfkit.analysis.memory.account import account
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.plan import Peak, PlannedVariant
from perfkit.errors import UnavailableError
from perfkit.measure.bench import min_world_size, refusal_of
from perfkit.measure.schedule import bench_schedule
from perfkit.plan.rehearsal import rehearse
from perfkit.plan.target import CPU, Target
from perfkit.store.request import BenchRequest


def plan(request: BenchRequest, target: Target = CPU) -> Iterator[PlannedVariant]:  # noqa: ARG001
    """The variants of a bench on a device one after the other, baselines first, as soon as each is known."""
    for run in bench_schedule(request, min_world_size, refusal_of).runs:
        spec = run.spec
        planned = partial(PlannedVariant, name=spec.variant, world_size=spec.launch.world_size)
        if run.skip:
            yield planned(reason=run.skip)
            continue
        try:
            rehearsed = rehearse(spec)
        except UnavailableError as error:
            yield planned(reason=str(error))
            continue
        held = account(rehearsed.allocations)
        peak = None if held is None else _peak(held)
        yield planned(
            peak_allocated_bytes=peak, untried=rehearsed.untried, assumptions=rehearsed.assumptions, memory=held
        )


def _peak(held: MemoryAccount) -> Peak:
    return Peak(
        value=held.peak_bytes,
        low=held.peak_bytes,
        high=held.peak_bytes,
        phase=held.peak_phase,
        categories={share.category: share.bytes for share in held.categories},
    )
