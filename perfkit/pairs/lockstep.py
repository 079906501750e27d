"""A pair in lock step: both sides' processes resident, a step each in turn, so that both see the same machine."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from perfkit.capture.clock import joined
from perfkit.capture.warmup import is_steady
from perfkit.pairs import protocol
from perfkit.pairs.resident import Conversation, Team, check_ready, steps_of
from perfkit.pairs.side import Side, places
from perfkit.record import Samples
from perfkit.spec import RunSpec
from perfkit.store.pairs import Pair

# Of a pair, at most and at least. More steps make a pair more precise, more pairs the result: a pair steps for as long
# as it took to get ready, which is near the best division of a budget where a pair's own spread (memory layout) and
# that of the median of its steps are alike (two-stage sampling: Cochran, Sampling Techniques, section 10.6).
STEP_PAIRS = 60
LEAST_STEP_PAIRS = 10

# Drift is shared by the sides, so that warm-up need only outlast what a process does once: looser than alone.
_WINDOW = 3
_AGREEMENT = 0.10


Stepper = Callable[[], Samples]  # runs one step


def measure_pair(
    before: Side, after: Side, spec: RunSpec, folder: Path, *, index: int, report: Callable[[str], None]
) -> Pair:
    """Start one process (or one per rank) of each side in `folder`, and take steps in the order ABBA.

    In every other pair `after` is first. Raises `SideFailedError` if a side does not train to the end; nothing is
    left running in any case. `spec.launch.timeout_s` bounds the pair as a whole.
    """
    start = time.monotonic()
    where = places(before, after)
    teams = [
        Team(before, where[0], spec, folder / "before"),
        Team(after, where[1], spec, folder / "after"),
    ]
    first, second = teams if index % 2 == 0 else reversed(teams)
    try:
        first.start()
        second.start()
        with Conversation(teams, start + spec.launch.timeout_s, report) as talk:
            for team, answers in zip((first, second), talk.wait([first, second]), strict=True):
                check_ready(team, answers)
            report("warm-up")
            steppers = (partial(_step, first, talk), partial(_step, second, talk))
            warm_up(steppers, spec.schedule.warmup, spec.schedule.max_warmup)
            report("step pairs")
            steps = take_turns(steppers, LEAST_STEP_PAIRS, STEP_PAIRS, time.monotonic() - start)
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
        steps = _step_pair(steppers, steps, count)
    return steps


def take_turns(
    steppers: tuple[Stepper, Stepper],
    least: int,
    most: int,
    for_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Samples, Samples]:
    """Step pairs in the order ABBA for `for_s` seconds, but at least `least` and at most `most`; whole ABBAs."""
    steps = (Samples(), Samples())
    end = clock() + for_s
    while (count := len(steps[0].wall_s)) < most and (count < least or count % 2 or clock() < end):
        steps = _step_pair(steppers, steps, count)
    return steps


def _step_pair(
    steppers: tuple[Stepper, Stepper], steps: tuple[Samples, Samples], index: int
) -> tuple[Samples, Samples]:
    """Add one step of each side, the second side first in every other pair."""
    if index % 2 == 0:
        first = steppers[0]()
        second = steppers[1]()
    else:
        second = steppers[1]()
        first = steppers[0]()
    return joined(steps[0], first), joined(steps[1], second)


def _step(team: Team, talk: Conversation) -> Samples:
    team.say(f"{protocol.RUN} 1")
    return steps_of(talk.wait([team])[0])
