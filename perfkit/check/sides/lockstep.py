"""A pair in lock step: both sides' processes resident, stepping by turns, so that both see the same machine."""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from perfkit.check.sides import protocol
from perfkit.check.sides.cores import cores_of_pair
from perfkit.check.sides.resident import Conversation, Team, check_ready, steps_of
from perfkit.check.sides.side import Side, places
from perfkit.devices.machine import usable_cpus
from perfkit.instruments.clock import joined
from perfkit.instruments.warmup import is_steady
from perfkit.record import Samples
from perfkit.spec import RunSpec
from perfkit.store.pairs import Pair

# Of a pair, at most and at least. More turns make a pair more precise, more pairs the result: a pair steps for as long
# as it took to get ready, which is near the best division of a budget where a pair's own spread (memory layout) and
# that of the median of its turns are alike (two-stage sampling: Cochran, Sampling Techniques, section 10.6).
TURNS = 60
LEAST_TURNS = 10

# A turn is one step, or as many as this takes. Where a step takes milliseconds, the first after the other side's finds
# cold caches, which is not what training does, and costs each process differently, by where its memory lies.
TURN_S = 0.02

# Drift is shared by the sides, so that warm-up need only outlast what a process does once: looser than alone.
_WINDOW = 3
_AGREEMENT = 0.10


Stepper = Callable[[int], Samples]  # takes a turn of so many steps; what one of them took, in the middle


def measure_pair(
    before: Side, after: Side, spec: RunSpec, folder: Path, *, index: int, report: Callable[[str], None]
) -> Pair:
    """Start one process (or one per rank) of each side in `folder`, and take steps in the order ABBA.

    In every other pair `after` is first. Raises `SideFailedError` if a side does not train to the end; nothing is
    left running in any case. `spec.launch.timeout_s` bounds the pair as a whole.
    """
    start = time.monotonic()
    where = places(before, after)
    cores = cores_of_pair(usable_cpus(), spec.launch.world_size, spec.launch.threads, index)
    teams = [
        Team(before, where[0], spec, folder / "before", cores),
        Team(after, where[1], spec, folder / "after", cores),
    ]
    first, second = teams if index % 2 == 0 else reversed(teams)
    try:
        first.start()
        second.start()
        with Conversation(teams, start + spec.launch.timeout_s, report) as talk:
            for team, answers in zip((first, second), talk.wait([first, second]), strict=True):
                check_ready(team, answers)
                team.settle()
            report("warm-up")
            steppers = (partial(_turn, first, talk), partial(_turn, second, talk))
            warm = warm_up(steppers, spec.schedule.warmup, spec.schedule.max_warmup)
            report("turns")
            ready_s = time.monotonic() - start
            steps = take_turns(steppers, LEAST_TURNS, TURNS, ready_s, steps=steps_of_turn(warm))
            for team in teams:
                team.dismiss()
    finally:
        for team in teams:
            team.end()
    of_before, of_after = steps if index % 2 == 0 else reversed(steps)
    return Pair(before=of_before, after=of_after, seconds=time.monotonic() - start)


def warm_up(steppers: tuple[Stepper, Stepper], least: int, most: int) -> tuple[Samples, Samples]:
    """Step pairs until both sides' CPU times are steady: at least `least`, at most `most`."""
    steps = (Samples(), Samples())
    while (count := len(steps[0].wall_s)) < most:
        if count >= least and all(is_steady(side.cpu_s, _WINDOW, _AGREEMENT) for side in steps):
            break
        steps = _turn_each(steppers, steps, count, 1)
    return steps


def steps_of_turn(warm: tuple[Samples, Samples]) -> int:
    """How many steps make a turn of `TURN_S`, from the last steps of both sides' warm-up; the same for both."""
    last = [median(side.wall_s[-_WINDOW:]) for side in warm if side.wall_s]
    return max(1, math.ceil(TURN_S / min(last))) if last else 1


def take_turns(
    steppers: tuple[Stepper, Stepper],
    least: int,
    most: int,
    for_s: float,
    clock: Callable[[], float] = time.monotonic,
    *,
    steps: int = 1,
) -> tuple[Samples, Samples]:
    """Turns of so many `steps` in the order ABBA, for `for_s` seconds.

    At least `least` and at most `most` of each side, and whole ABBAs.
    """
    taken = (Samples(), Samples())
    end = clock() + for_s
    while (count := len(taken[0].wall_s)) < most and (count < least or count % 2 or clock() < end):
        taken = _turn_each(steppers, taken, count, steps)
    return taken


def _turn_each(
    steppers: tuple[Stepper, Stepper], taken: tuple[Samples, Samples], index: int, steps: int
) -> tuple[Samples, Samples]:
    """Add one turn of each side, the second side first in every other pair of turns."""
    if index % 2 == 0:
        first = steppers[0](steps)
        second = steppers[1](steps)
    else:
        second = steppers[1](steps)
        first = steppers[0](steps)
    return joined(taken[0], first), joined(taken[1], second)


def _turn(team: Team, talk: Conversation, steps: int) -> Samples:
    team.say(f"{protocol.RUN} {steps}")
    return protocol.middle(steps_of(talk.wait([team])[0]))
