"""Measures a pair of whole processes, one after the other, if both cannot be resident, as on a GPU."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from perfkit.check.sides.side import MeasuredSide, make_failure, place_sides
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.step_samples import StepSamples, merge_slowest_ranks
from perfkit.core.spec import RunSpec
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.measure.launch.run_launch import launch_run
from perfkit.store.layout import RECORD_FILE, get_rank_folder
from perfkit.store.pairs import Pair


def measure_pair(
    before: MeasuredSide, after: MeasuredSide, spec: RunSpec, folder: Path, *, index: int, report: Callable[[str], None]
) -> Pair:
    """Run each side once in `folder`, without instruments; in every other pair `after` is first.

    Raises `SideFailedError` if a side does not complete training. `spec.launch.timeout_s` bounds each process.
    """
    start = time.monotonic()
    where = place_sides(before, after)
    sides = [(before, where[0], folder / "before"), (after, where[1], folder / "after")]
    steps = {}
    for side, place, own in sides if index % 2 == 0 else reversed(sides):
        steps[own] = _run_steps(side, place, msgspec.structs.replace(spec, passes=()), own, report)
    of_before, of_after = (steps[own] for _, _, own in sides)
    return Pair(before=of_before, after=of_after, seconds=time.monotonic() - start)


def _run_steps(
    side: MeasuredSide, place: RankPlace, spec: RunSpec, folder: Path, report: Callable[[str], None]
) -> StepSamples:
    run = launch_run(spec, folder, lambda name: report(f"{side.label}: {name}"), place=place)
    if run.status != RunStatus.OK:
        raise make_failure(side, run, folder)
    ranks = range(spec.launch.world_size)
    return merge_slowest_ranks(
        [read_json(get_rank_folder(folder, rank) / RECORD_FILE, RankRecord).samples for rank in ranks]
    )
