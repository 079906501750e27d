"""Stepping by turns: the processes of all teams are resident and step one after the other, so that they share the
machine's mood."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from perfkit.core.record.step_samples import StepSamples
from perfkit.instruments.clock import join_samples
from perfkit.instruments.warmup import BY_TURNS_WINDOW, is_warm_by_turns
from perfkit.measure.interleaving import protocol
from perfkit.measure.interleaving.resident_teams import Conversation, Team, check_ready, merge_team_steps

# Of a round, at most and at least. More turns make a round more precise, more rounds the result: a round steps for as
# long as it took to get ready, which is near the best division of a budget where a round's own spread (memory layout)
# and that of the median of its turns are alike (two-stage sampling: Cochran, Sampling Techniques, section 10.6). Where
# steps take seconds, few turns leave time for more rounds.
TURNS = 60
LEAST_TURNS = 4

# A turn is one step, or as many as take this long. A step finds cold caches after another process's, which is unlike
# training, and costs each process differently, depending on its memory layout: with steps of 30 ms, turns of 20 ms were
# 20 % slower than training alone, and ratios of processes spread by 6.7 %; with turns of 250 ms it was 4 % and 2.6 %.
TURN_S = 0.2

Stepper = Callable[[int], StepSamples]  # takes a number of steps and returns their samples


def step_by_turns(
    teams: Sequence[Team],
    *,
    limit_s: float,
    report: Callable[[str], None],
    turns: int | None = None,
    turns_s: float = math.inf,
) -> tuple[StepSamples, ...]:
    """Start all teams, warm up, and take turns in the order ABBA (ABCCBA, and so on), `turns` of them each.

    By default as many as fit into the start-up time and into `turns_s`. Returns each team's turns, where a turn is the
    median of its steps. Raises `TeamFailedError` if one does not train to the end, or not within `limit_s`; nothing is
    left running in any case.
    """
    start = time.monotonic()
    least, most = (LEAST_TURNS, TURNS) if turns is None else (turns, turns)
    schedule = teams[0].spec.schedule
    try:
        for team in teams:
            team.start()
        with Conversation(list(teams), start + limit_s, report) as talk:
            for team, answers in zip(teams, talk.wait(list(teams)), strict=True):
                check_ready(team, answers)
                team.settle()
            report("warm-up")
            warming = [partial(_request_steps, team, talk, protocol.WARM_UP) for team in teams]
            warm = warm_up(warming, schedule.warmup, schedule.max_warmup)
            report("turns")
            ready_s = time.monotonic() - start
            steppers = [partial(_take_turn, team, talk) for team in teams]
            turn_samples = take_turns(steppers, least, most, min(ready_s, turns_s), steps=choose_turn_steps(warm))
            for team in teams:
                team.dismiss()
    finally:
        for team in teams:
            team.end()
    return turn_samples


def warm_up(steppers: Sequence[Stepper], least: int, most: int) -> tuple[StepSamples, ...]:
    """Step by turns until the CPU times of each team have been steady once after `least` steps, and at most `most`.

    Of many processes one is always off by chance, so they need not be steady at the same step. All take the same number
    of steps, so that steps of the same batches are compared.
    """
    steps = (StepSamples(),) * len(steppers)
    steady: set[int] = set()
    while (count := len(steps[0].wall_s)) < most:
        if count >= least:
            steady.update(number for number, team in enumerate(steps) if is_warm_by_turns(team))
        if len(steady) == len(steps):
            break
        steps = _step_each(steppers, steps, count, 1)
    return steps


def choose_turn_steps(warm: Sequence[StepSamples]) -> int:
    """Choose the number of steps in a turn of `TURN_S`, from the last warm-up steps; the same for all."""
    last = [median(team.wall_s[-BY_TURNS_WINDOW:]) for team in warm if team.wall_s]
    return max(1, math.ceil(TURN_S / min(last))) if last else 1


def take_turns(
    steppers: Sequence[Stepper],
    least: int,
    most: int,
    for_s: float,
    clock: Callable[[], float] = time.monotonic,
    *,
    steps: int = 1,
) -> tuple[StepSamples, ...]:
    """Take turns of `steps` steps in the order ABBA, for `for_s` seconds.

    At least `least` and at most `most` of each, and whole ABBAs unless `most` is odd.
    """
    samples = (StepSamples(),) * len(steppers)
    end = clock() + for_s
    while (count := len(samples[0].wall_s)) < most and (count < least or count % 2 or clock() < end):
        samples = _step_each(steppers, samples, count, steps)
    return samples


def _step_each(
    steppers: Sequence[Stepper], samples: tuple[StepSamples, ...], index: int, steps: int
) -> tuple[StepSamples, ...]:
    """Add one turn of each, from the last to the first in every other round of turns."""
    order = range(len(steppers)) if index % 2 == 0 else reversed(range(len(steppers)))
    new = {number: steppers[number](steps) for number in order}
    return tuple(join_samples(before, new[number]) for number, before in enumerate(samples))


def _take_turn(team: Team, talk: Conversation, steps: int) -> StepSamples:
    return protocol.summarize_turn(_request_steps(team, talk, protocol.TURN, steps))


def _request_steps(team: Team, talk: Conversation, word: str, steps: int) -> StepSamples:
    team.say(f"{word} {steps}")
    return merge_team_steps(talk.wait([team])[0])
