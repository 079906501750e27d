"""Events that a bench reports while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from perfkit.core.record.rank_record import RunStatus


@dataclass(frozen=True)
class RunStarted:
    """Run `index` of `total` begins: of the first runs, or of a round's where each has the machine to itself. The
    variant has been run `repeat` times before."""

    index: int
    total: int
    variant: str
    repeat: int


@dataclass(frozen=True)
class PassStarted:
    """The running worker enters a pass."""

    name: str


@dataclass(frozen=True)
class RunFinished:
    """The run has ended; `reason` says why where it is not ok."""

    index: int
    total: int
    variant: str
    repeat: int
    status: RunStatus
    reason: str
    seconds: float


@dataclass(frozen=True)
class RoundStarted:
    """Round `number` (from 1) begins with these variants. `left_s` estimates the time of all remaining rounds, None
    before the first has ended."""

    number: int
    variants: tuple[str, ...]
    left_s: float | None


@dataclass(frozen=True)
class RoundFinished:
    """Round `number` has ended. `widths` are the relative half-widths of the comparisons' intervals, None after a
    single round."""

    number: int
    seconds: float
    widths: Mapping[str, float | None]


@dataclass(frozen=True)
class BudgetExceeded:
    """The bench takes about `needed_s` at least, more than the budget that was asked for."""

    budget_s: float
    needed_s: float


RunEvent = RunStarted | PassStarted | RunFinished
Event = RunEvent | RoundStarted | RoundFinished | BudgetExceeded
