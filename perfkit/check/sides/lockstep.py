"""Measures a pair in lock-step: both processes are resident and alternate steps, so both see the same load."""

import time
from collections.abc import Callable
from pathlib import Path

from perfkit.check.sides.side import MeasuredSide, make_failure, place_sides
from perfkit.core.spec import RunSpec
from perfkit.devices.machine.machine import list_usable_cpus
from perfkit.measure.interleaving.core_pinning import choose_round_cores
from perfkit.measure.interleaving.lockstep import step_by_turns
from perfkit.measure.interleaving.resident_teams import Team, TeamFailedError
from perfkit.store.pairs import Pair


def measure_pair(
    before: MeasuredSide, after: MeasuredSide, spec: RunSpec, folder: Path, *, index: int, report: Callable[[str], None]
) -> Pair:
    """Start one process (or one per rank) of each side in `folder`, and take steps in the order ABBA.

    In every other pair `after` is first. Raises `SideFailedError` if a side does not complete training; no process is
    left running in any case. `spec.launch.timeout_s` bounds the pair as a whole.
    """
    start = time.monotonic()
    cores = choose_round_cores(list_usable_cpus(), spec.launch.world_size, spec.launch.threads, index // 2)
    sides = {
        Team(side.label, spec, folder / name, place=place, cores=cores): side
        for side, place, name in zip((before, after), place_sides(before, after), ("before", "after"), strict=True)
    }
    teams = list(sides) if index % 2 == 0 else list(reversed(sides))
    try:
        steps = step_by_turns(teams, limit_s=spec.launch.timeout_s, report=report)
    except TeamFailedError as error:
        raise make_failure(sides[error.team], error.run, error.team.folder) from None
    of_before, of_after = steps if index % 2 == 0 else reversed(steps)
    return Pair(before=of_before, after=of_after, seconds=time.monotonic() - start)
