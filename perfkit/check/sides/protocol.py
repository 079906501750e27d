"""What lock step says: commands to a resident worker and its answers, a line each.

A worker says `ready VERSION` once it can take steps, and answers `run COUNT` with `steps SAMPLES` (JSON). Any other
line of it is progress. `end` ends it, as does the end of its input.
"""

from statistics import median

import msgspec

from perfkit.record import Samples

VERSION = 1
READY = "ready"
RUN = "run"
STEPS = "steps"
END = "end"


def ready_line() -> str:
    return f"{READY} {VERSION}"


def steps_line(samples: Samples) -> str:
    return f"{STEPS} {msgspec.json.encode(samples).decode()}"


def parse_steps(text: str) -> Samples:
    return msgspec.json.decode(text, type=Samples)


def slowest(ranks: list[Samples]) -> Samples:
    """The steps of several ranks as one: each of a step's wall, CPU and device time is that of its slowest rank."""
    return Samples(
        wall_s=tuple(map(max, zip(*(rank.wall_s for rank in ranks), strict=True))),
        cpu_s=tuple(map(max, zip(*(rank.cpu_s for rank in ranks), strict=True))),
        device_s=tuple(map(max, zip(*(rank.device_s for rank in ranks), strict=True))),
    )


def middle(steps: Samples) -> Samples:
    """What one of these steps took: the median on each clock."""
    clocks = {"wall_s": steps.wall_s, "cpu_s": steps.cpu_s, "device_s": steps.device_s}
    return Samples(**{name: (median(taken),) if taken else () for name, taken in clocks.items()})
