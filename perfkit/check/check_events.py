"""Progress events of a check."""

from dataclasses import dataclass

from perfkit.check.sides.pair_events import PairEvent
from perfkit.measure.run_events import RunEvent


@dataclass(frozen=True)
class SideEvent:
    """An instrumented run on the side `label`; round `index` of `rounds`, from 0."""

    workload: str
    label: str
    index: int
    rounds: int
    event: RunEvent


@dataclass(frozen=True)
class SamplingEvent:
    """Process pairs of one variant."""

    workload: str
    variant: str
    event: PairEvent


@dataclass(frozen=True)
class EnvironmentEvent:
    """The environment `label` is being created; `text` says how far it is."""

    label: str
    text: str


CheckEvent = SideEvent | SamplingEvent | EnvironmentEvent
