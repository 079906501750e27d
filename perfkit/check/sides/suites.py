"""The instrumented runs of both sides, as two ordinary suites: what is counted, and what shows why times differ."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from perfkit.check.sides.side import MeasuredSide, place_sides
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.measure.bench import compute_needed_ranks, find_dtype_refusal
from perfkit.measure.run_events import RunEvent
from perfkit.measure.schedule import build_schedule
from perfkit.measure.suite_writer import create_suite
from perfkit.store.layout import Suite
from perfkit.store.request import BenchRequest


def measure_sides(
    before: MeasuredSide,
    after: MeasuredSide,
    request: BenchRequest,
    folder: Path,
    *,
    repeats: int,
    command: str,
    ceilings: DeviceCeilings | None,
    progress: Callable[[str, RunEvent], None],
) -> tuple[Suite, Suite]:
    """Run every variant of `request` on both sides, into the new folders `folder/before` and `folder/after`.

    Instruments run in the first of the `repeats`. A variant's runs alternate in ABBA order. `progress` gets the side's
    label with each event. A failed run is recorded in its suite, and not repeated on its side.
    """
    schedule = build_schedule(request, compute_needed_ranks, find_dtype_refusal)
    writers = [
        (side, place, create_suite(schedule, folder / name, command=command, ceilings=ceilings))
        for side, place, name in zip((before, after), place_sides(before, after), ("before", "after"), strict=True)
    ]
    for repeat in range(repeats):
        for item in schedule.select_round(repeat):
            for side, place, suite in writers if repeat % 2 == 0 else reversed(writers):
                suite.run(item, partial(progress, side.label), place)
    return writers[0][2].suite, writers[1][2].suite


def measure_side(
    side: MeasuredSide,
    request: BenchRequest,
    folder: Path,
    *,
    command: str,
    ceilings: DeviceCeilings | None,
    progress: Callable[[str, RunEvent], None],
) -> Suite:
    """Run every variant of `request` once on one side, into the new folder `folder`."""
    schedule = build_schedule(request, compute_needed_ranks, find_dtype_refusal)
    suite = create_suite(schedule, folder, command=command, ceilings=ceilings)
    place, _ = place_sides(side, side)
    for item in schedule.runs:
        suite.run(item, partial(progress, side.label), place)
    return suite.suite
