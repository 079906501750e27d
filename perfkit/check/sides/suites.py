"""The instrumented runs of both sides, as two ordinary suites: what is counted, and what shows why times differ."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from perfkit.check.sides.side import Side, places
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.measure.bench import Event, SuiteInMaking, dtype_refusal, min_world_size
from perfkit.measure.schedule import BenchRequest, bench_schedule
from perfkit.store.layout import Suite


def measure_sides(
    before: Side,
    after: Side,
    request: BenchRequest,
    folder: Path,
    *,
    repeats: int,
    command: str,
    ceilings: DeviceCeilings | None,
    progress: Callable[[str, Event], None],
) -> tuple[Suite, Suite]:
    """Run every variant of `request` on both sides, into `folder/before` and `folder/after`, which must not exist.

    Instruments run in the first of the `repeats`. A variant's runs take turns in the order ABBA. `progress` gets the
    side's label with each event. A run that fails is a result in its suite, and is not repeated on its side.
    """
    schedule = bench_schedule(replace(request, repeats=repeats), min_world_size, dtype_refusal)
    making = [
        (side, place, SuiteInMaking(schedule, folder / name, command=command, ceilings=ceilings))
        for side, place, name in zip((before, after), places(before, after), ("before", "after"), strict=True)
    ]
    for index, item in enumerate(schedule.runs):
        for side, place, suite in making if item.repeat % 2 == 0 else reversed(making):
            suite.run(index, partial(progress, side.label), place)
    return making[0][2].suite, making[1][2].suite


def measure_side(
    side: Side,
    request: BenchRequest,
    folder: Path,
    *,
    command: str,
    ceilings: DeviceCeilings | None,
    progress: Callable[[str, Event], None],
) -> Suite:
    """Run every variant of `request` once on one side alone, into `folder`, which must not exist."""
    schedule = bench_schedule(replace(request, repeats=1), min_world_size, dtype_refusal)
    suite = SuiteInMaking(schedule, folder, command=command, ceilings=ceilings)
    place, _ = places(side, side)
    for index in range(len(schedule.runs)):
        suite.run(index, partial(progress, side.label), place)
    return suite.suite
