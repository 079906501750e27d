"""Samples the Python stacks of a loop: its own thread, and its loaders' workers."""

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.core.files import write_bytes, write_json
from perfkit.instruments.recording import Recording
from perfkit.instruments.stacks.own_stacks import sample_own_stacks
from perfkit.store.stack_formats import encode_speedscope
from perfkit.store.stacks import SPEEDSCOPE_FILE, STACKS_FILE, SampledStacks

SAMPLED_S = 3.0  # at 100 a second a share of 10 % is then known to 2 %
_UNLIKE = 5.0  # times the usual step: one that compiles, evaluates, saves a checkpoint, or waits for loaders
_OF_OTHERS = 0.5  # of the time, which such steps may take
_MOST_LOOKS = 5

Clock = Callable[[], float]


class _SampledSteps:
    """The steps during sampling, compared with the timed ones."""

    def __init__(self, loop: LoopFollower, usual_s: float, evaluates: bool, clock: Clock) -> None:
        self._loop = loop
        self._usual_s = usual_s
        self._evaluates = evaluates
        self._clock = clock
        self._began = self._before = clock()
        self._others_s = 0.0
        loop.take()

    def end(self) -> float:
        """Record the end of a step, and the duration of all."""
        counts, now = self._loop.take(), self._clock()
        took = now - self._before
        if took > _UNLIKE * self._usual_s or counts.captures or (counts.evaluations and not self._evaluates):
            self._others_s += took
        self._before = now
        return now - self._began

    def compute_others_share(self) -> float:
        """The part of the time that was that of other steps; one that is not over counts when it has become long."""
        now = self._clock()
        begun = now - self._before
        others_s = self._others_s + (begun if begun > _UNLIKE * self._usual_s else 0.0)
        return others_s / (now - self._began) if others_s else 0.0


def sample_loop_stacks(
    folder: Path, hz: int, loop: LoopFollower, usual_s: float, *, evaluates: bool, clock: Clock = time.monotonic
) -> Recording[None]:
    """Sample for some seconds, one whole step at least, and write the samples to `folder`, or why there are none.

    What is kept is mostly of steps like the timed ones, which take `usual_s`: where others took more of the time it is
    looked again. `evaluates` says that evaluations are a part of all steps.
    """
    for _ in range(_MOST_LOOKS):
        samples: list[SampledStacks] = []
        steps = _SampledSteps(loop, usual_s, evaluates, clock)
        try:
            with sample_own_stacks(folder, hz, samples.append):
                yield
                while steps.end() < SAMPLED_S:
                    yield
                others = steps.compute_others_share()
        except GeneratorExit:
            _write_stacks(folder, _judge_stacks(samples[0], steps.compute_others_share(), ended=True))
            raise
        if samples[0].reason or others <= _OF_OTHERS:
            break
    _write_stacks(folder, _judge_stacks(samples[0], others, ended=False))


def _judge_stacks(seen: SampledStacks, others: float, *, ended: bool) -> SampledStacks:
    if seen.reason or others <= _OF_OTHERS:
        return replace(seen, other_steps_share=others)
    if ended:
        return SampledStacks(reason="the loop ended during sampling, most of which was not of timed steps")
    return SampledStacks(reason="other work than timed steps (compiling, evaluating) took most of the sampled time")


def _write_stacks(folder: Path, seen: SampledStacks) -> None:
    write_json(folder / STACKS_FILE, seen)
    if seen.threads:
        write_bytes(folder / SPEEDSCOPE_FILE, encode_speedscope(seen.threads))
