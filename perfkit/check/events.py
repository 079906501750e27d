"""Events of a check while it measures."""

from dataclasses import dataclass

from perfkit.check.sides.measure import PairEvent
from perfkit.measure.events import RunEvent


@dataclass(frozen=True)
class SideEvent:
    """A run with instruments on one side, called `label`; round `index` of `rounds`, from 0."""

    workload: str
    label: str
    index: int
    rounds: int
    event: RunEvent


@dataclass(frozen=True)
class SamplingEvent:
    """Pairs of processes of one variant."""

    workload: str
    variant: str
    event: PairEvent


CheckEvent = SideEvent | SamplingEvent
