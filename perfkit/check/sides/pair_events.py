"""Events that the measurement of pairs reports while it runs."""

from dataclasses import dataclass

from perfkit.store.pairs import Pair


@dataclass(frozen=True)
class PairStarted:
    """Pair `index` (from 0) of at most `most` begins; `spent_s` of the budget is used."""

    index: int
    most: int
    spent_s: float


@dataclass(frozen=True)
class PairProgress:
    """Progress of the running pair's processes, in words."""

    text: str


@dataclass(frozen=True)
class PairFinished:
    """Pair `index` is measured and written."""

    index: int
    most: int
    pair: Pair


PairEvent = PairStarted | PairProgress | PairFinished
