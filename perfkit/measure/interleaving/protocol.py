"""The protocol of stepping by turns: commands to a resident worker and its answers, one per line.

A worker says `ready VERSION` once it can take steps, and answers `warm-up COUNT` and `turn COUNT` with `steps SAMPLES`
(JSON): that many consecutive steps. Any other line is progress. `end` ends it, as does the end of its input.
"""

from statistics import median

import msgspec

from perfkit.core.record.step_samples import StepSamples

VERSION = 2
READY = "ready"
WARM_UP = "warm-up"
TURN = "turn"
STEPS = "steps"
END = "end"


def format_ready() -> str:
    return f"{READY} {VERSION}"


def format_steps(samples: StepSamples) -> str:
    return f"{STEPS} {msgspec.json.encode(samples).decode()}"


def parse_steps(text: str) -> StepSamples:
    return msgspec.json.decode(text, type=StepSamples)


def summarize_turn(steps: StepSamples) -> StepSamples:
    """Summarize a turn's steps: the median on each clock."""
    clocks = {"wall_s": steps.wall_s, "cpu_s": steps.cpu_s, "device_s": steps.device_s}
    return StepSamples(**{name: (median(times),) if times else () for name, times in clocks.items()})
