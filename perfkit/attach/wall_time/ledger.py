"""Splits the wall time of a watched program: each moment belongs to one part."""

import time
from array import array
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from statistics import median

from perfkit.core.record.attached_loop import WallTimeParts

# A step of more than this many medians does something beside training, as in `perfkit.analysis.suite.attached_loop`.
_FAR = 2.0

# The key of steps that no optimizer makes, which are seen only while the loop is recorded.
BY_STEPS = "steps"


class Part(StrEnum):
    """A part of wall time that is entered and left, or that holds between two others."""

    STARTUP = "startup"
    TRAINING = "training"
    DATA = "data"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    COMPILATION = "compilation"
    RECORDING = "recording"


class WallTimeLedger:
    """Adds each moment since it was made to the innermost part that is entered, else to the phase of the program.

    The phase is start-up until the first step has ended, then training or evaluation. Waits for data during an
    evaluation are part of it. Time of training is kept by step, under a key for each optimizer: what a step takes
    beyond twice the median of its key is no training, nor is what follows the last one.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self._began_ns = self._since_ns = clock_ns()
        self._ended_ns: int | None = None
        self._phase = Part.STARTUP
        self._inside: list[Part] = []
        self._ns = dict.fromkeys(Part, 0)
        self._counts = dict.fromkeys(Part, 0)
        self._own_ns = 0  # training since the step before ended
        self._phase_ns = 0  # evaluation since it began
        self._steps: dict[Hashable, array[int]] = {}
        self._updates = 0
        self._slowed: list[tuple[Hashable, int]] = []
        self.instrumented = False
        self.compiled_in: dict[str, int] = {}

    @property
    def phase(self) -> Part:
        return self._phase

    @property
    def updates(self) -> int:
        """Updates that have ended."""
        return self._updates

    def enter(self, part: Part) -> None:
        """Time belongs to `part` from now on."""
        self._account()
        if part not in self._inside:
            self._counts[part] += 1
        self._inside.append(part)

    def leave(self, part: Part) -> None:
        """`part`, which was entered last of its kind, ends."""
        self._account()
        for place in range(len(self._inside) - 1, -1, -1):
            if self._inside[place] is part:
                del self._inside[place]
                return

    def begin_compilation(self, number: str) -> None:
        """A graph of this number is compiled; its backward graph has the same."""
        self.compiled_in.setdefault(number, self._updates + 1)
        self.enter(Part.COMPILATION)

    @contextmanager
    def within(self, part: Part) -> Iterator[None]:
        self.enter(part)
        try:
            yield
        finally:
            self.leave(part)

    def begin_evaluation(self) -> None:
        """The trained model is to be evaluated; not before the first step, when what is trained is not known."""
        self._account()
        if self._phase is Part.TRAINING:
            self._phase, self._phase_ns = Part.EVALUATION, 0
            self._counts[Part.EVALUATION] += 1

    def end_evaluation(self) -> None:
        """Training goes on."""
        self._account()
        if self._phase is Part.EVALUATION:
            self._phase = Part.TRAINING

    def end_step(self, key: Hashable) -> None:
        """An update has ended. One during an evaluation shows that it had ended before, or was none."""
        self._account()
        self._updates += 1
        if self._phase is Part.STARTUP:
            self._phase = Part.TRAINING
            return
        if self._phase is Part.EVALUATION:
            self._ns[Part.EVALUATION] -= self._phase_ns
            self._ns[Part.TRAINING] += self._phase_ns
            self._own_ns += self._phase_ns
            self._counts[Part.EVALUATION] -= 1
            self._phase = Part.TRAINING
        if self.instrumented:
            self._slowed.append((key, self._own_ns))
        else:
            self._steps.setdefault(key, array("q")).append(self._own_ns)
        self._own_ns = 0

    def close(self) -> None:
        """The run ends; nothing is added from now on."""
        self._account()
        self._ended_ns = self._since_ns

    def summarize(self) -> WallTimeParts:
        """The parts so far, which add up to the wall time."""
        self._account()
        ns, medians = self._ns, {key: median(steps) for key, steps in self._steps.items()}
        other = self._own_ns if medians and BY_STEPS not in medians else 0
        for key, steps in self._steps.items():
            other += round(sum(step - medians[key] for step in steps if step > _FAR * medians[key]))
        slowdown = round(sum(max(0.0, step - medians[key]) for key, step in self._slowed if key in medians))
        return WallTimeParts(
            wall_s=(self._since_ns - self._began_ns) / 1e9,
            startup_s=ns[Part.STARTUP] / 1e9,
            training_s=(ns[Part.TRAINING] - other - slowdown) / 1e9,
            data_s=ns[Part.DATA] / 1e9,
            evaluation_s=ns[Part.EVALUATION] / 1e9,
            checkpoint_s=ns[Part.CHECKPOINT] / 1e9,
            compilation_s=ns[Part.COMPILATION] / 1e9,
            recording_s=(ns[Part.RECORDING] + slowdown) / 1e9,
            other_s=other / 1e9,
            updates=self._updates,
            evaluations=self._counts[Part.EVALUATION],
            checkpoints=self._counts[Part.CHECKPOINT],
            compilations=self._counts[Part.COMPILATION],
        )

    def _account(self) -> None:
        """Add the time since the last event to the part that it belongs to."""
        if self._ended_ns is not None:
            return
        now = self._clock_ns()
        passed, self._since_ns = now - self._since_ns, now
        part = self._inside[-1] if self._inside else self._phase
        if part is Part.DATA and self._phase is Part.EVALUATION:
            part = Part.EVALUATION
        self._ns[part] += passed
        if part is Part.TRAINING:
            self._own_ns += passed
        elif part is Part.EVALUATION:
            self._phase_ns += passed
