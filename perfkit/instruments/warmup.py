"""Warm-up: steps that are run and kept apart until step times are steady."""

from collections.abc import Callable, Sequence
from statistics import median

from perfkit.core.record.step_samples import StepSamples
from perfkit.instruments.clock import Clock, Step, get_step_times, join_samples

WINDOW = 5
AGREEMENT = 0.03
BY_TURNS_WINDOW = 3


def is_steady(times: Sequence[float], window: int = WINDOW, agreement: float = AGREEMENT) -> bool:
    """True if the medians of the last two windows of `window` steps agree within `agreement`."""
    if len(times) < 2 * window:
        return False
    before, after = median(times[-2 * window : -window]), median(times[-window:])
    return abs(after - before) <= agreement * before


def is_warm_by_turns(steps: StepSamples) -> bool:
    """The same of steps taken by turns with other processes, on the CPU's clock.

    Drift is shared there, so that warm-up need only outlast what a process does once: looser than alone.
    """
    return is_steady(steps.cpu_s, BY_TURNS_WINDOW, 0.10)


def warm_up(
    step: Step, clock: Clock, *, least: int, most: int, agree: Callable[[bool], bool] = bool
) -> tuple[StepSamples, bool]:
    """Run at least `least` and at most `most` steps until steady. Returns their times and whether they got steady.

    Ranks must run the same number of steps: `agree` turns a rank's own answer into that of all ranks.
    """
    samples = clock.time_steps(step, 0, least) if least else StepSamples()
    steady = agree(is_steady(get_step_times(samples)))
    while len(times := get_step_times(samples)) < most and not steady:
        samples = join_samples(samples, clock.time_steps(step, len(times), 1))
        steady = agree(is_steady(get_step_times(samples)))
    return samples, steady
