"""Steps of two sides, timed in pairs of processes: `pairs.json`."""

from pathlib import Path

from perfkit.core.files import write_json
from perfkit.core.record.environment import MachineLoad
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import Struct

PAIRS_VERSION = 3
PAIRS_FILE = "pairs.json"

# How the two processes of a pair took turns.
LOCK_STEP = "lock-step"  # both resident, stepping by turns, in ABBA order
ALTERNATING = "alternating"  # one whole process after the other, the first of each pair in turn


class Pair(Struct):
    """Two processes of the same age, one per side. The pair is the unit of statistics, never its steps.

    `before` and `after` are the steps of the two sides, in the order of execution: in lock step, the n-th of one ran
    next to the n-th of the other. Short steps are medians of a turn of several. With several ranks, a step is that of
    its slowest rank. `seconds` is the pair's total time, including process start, and `load` the machine's other load
    in that time.
    """

    before: StepSamples
    after: StepSamples
    seconds: float
    load: MachineLoad | None = None


class Pairs(Struct):
    """All pairs of one variant. `pairing` is `lock-step` or `alternating`; `end_reason` says why there are no more."""

    schema_version: int = PAIRS_VERSION
    variant: str
    pairing: str
    pairs: tuple[Pair, ...] = ()
    end_reason: str = ""


def write_pairs(path: Path, pairs: Pairs) -> None:
    """Write `pairs.json`, atomically."""
    write_json(path, pairs)
