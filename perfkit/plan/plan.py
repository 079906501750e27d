"""What each variant of a bench would need, before anything is trained."""

from collections.abc import Iterator
from functools import partial

from perfkit.analysis.memory.account import account
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.errors import UnavailableError
from perfkit.measure.bench import min_world_size, refusal_of
from perfkit.measure.schedule import bench_schedule
from perfkit.plan.rehearsal import rehearse
from perfkit.spec import Struct
from perfkit.store.request import BenchRequest


class Peak(Struct):
    """Bytes that a CPU's allocator would have handed out at the fullest moment of a step, by what they are for."""

    value: int
    phase: str
    categories: dict[str, int]


class PlannedVariant(Struct):
    """A variant on so many ranks, each alike. `peak_allocated_bytes` is None where it is not known, with the `reason`.

    `untried` are ops whose libraries take scratch memory that is not in the peak: their operands are too large to try.
    """

    name: str
    world_size: int
    peak_allocated_bytes: Peak | None = None
    untried: tuple[str, ...] = ()
    reason: str = ""


def plan(request: BenchRequest) -> Iterator[PlannedVariant]:
    """The variants of a bench one after the other, baselines first, as soon as each is known."""
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
        yield planned(peak_allocated_bytes=None if held is None else _peak(held), untried=rehearsed.untried)


def _peak(held: MemoryAccount) -> Peak:
    return Peak(
        value=held.peak_bytes,
        phase=held.peak_phase,
        categories={share.category: share.bytes for share in held.categories},
    )
