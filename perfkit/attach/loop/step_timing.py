"""Measures an attached loop's steps at their boundaries, with only a clock."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from perfkit.attach.loop.loop_follower import LoopFollower, StepCounts
from perfkit.core.record.step_samples import StepSamples
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.recording import Recording


class BoundaryStamp(NamedTuple):
    """A boundary: wall and process CPU time, and on a GPU the event that the device reaches then."""

    wall_ns: int
    cpu_ns: int
    event: torch.Event | None


def take_stamp(device: torch.device) -> BoundaryStamp:
    """Now. On a GPU the event goes to the current stream of `device`, which the program need not have made its current
    one, and nothing waits for it."""
    event = None
    accelerator = get_accelerator(device)
    if accelerator.has_events:
        runtime = accelerator.runtime
        event = runtime.Event(enable_timing=True)
        event.record(runtime.current_stream(device))
    return BoundaryStamp(time.perf_counter_ns(), time.process_time_ns(), event)


@dataclass
class StepSeries:
    """Step boundaries, and the counts between them: one more time stamp than counts."""

    stamps: list[BoundaryStamp] = field(default_factory=list)
    counts: list[StepCounts] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.counts)

    def wall_s(self) -> list[float]:
        return [(after.wall_ns - before.wall_ns) / 1e9 for before, after in self._pair_stamps()]

    def samples(self, chosen: list[int]) -> StepSamples:
        """The times of the chosen steps. On a GPU this waits for the last of them."""
        pairs = self._pair_stamps()
        steps = [pairs[index] for index in chosen]
        if steps and steps[-1][1].event is not None:
            steps[-1][1].event.synchronize()
        return StepSamples(
            wall_s=tuple((after.wall_ns - before.wall_ns) / 1e9 for before, after in steps),
            cpu_s=tuple((after.cpu_ns - before.cpu_ns) / 1e9 for before, after in steps),
            device_s=tuple(
                before.event.elapsed_time(after.event) / 1e3
                for before, after in steps
                if before.event is not None and after.event is not None
            ),
        )

    @property
    def evaluates(self) -> bool:
        """True if most steps contain an evaluation, which is then part of a step."""
        return 2 * sum(1 for counts in self.counts if counts.evaluations) >= len(self) > 0

    def list_training_steps(self) -> list[int]:
        """The steps without an evaluation; all, where evaluations are part of a step. Steps with a CUDA graph capture
        do not count, since captured work does not run, nor those in which a new model was built."""
        evaluates = self.evaluates
        return [
            index
            for index, counts in enumerate(self.counts)
            if (evaluates or not counts.evaluations) and not counts.captures and not counts.new_models
        ]

    def _pair_stamps(self) -> list[tuple[BoundaryStamp, BoundaryStamp]]:
        return list(zip(self.stamps, self.stamps[1:], strict=False))


def time_loop_steps(
    loop: LoopFollower,
    device: torch.device,
    count: int,
    series: StepSeries,
    look: Callable[[StepCounts], None] = lambda _: None,
) -> Recording[None]:
    """Add `count` steps to `series`, which keeps the measured ones if the loop ends earlier; `look` gets the counts of
    each, after its end was measured."""
    loop.take()
    if not series.stamps:
        series.stamps.append(take_stamp(device))
    for _ in range(count):
        yield
        series.stamps.append(take_stamp(device))
        series.counts.append(loop.take())
        look(series.counts[-1])
