"""Measuring pair after pair until enough is known or the budget is used up."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from perfkit.check.sides import alternating_pairs, lockstep
from perfkit.check.sides.side import MeasuredSide
from perfkit.errors import UsageError
from perfkit.instruments.machine_load import compute_load, read_load
from perfkit.spec import RunSpec
from perfkit.store.pairs import ALTERNATING, LOCK_STEP, PAIRS_FILE, Pair, Pairs, write_pairs
from perfkit.units import format_seconds

TURNS: dict[str, Callable[..., Pair]] = {
    LOCK_STEP: lockstep.measure_pair,
    ALTERNATING: alternating_pairs.measure_pair,
}


@dataclass(frozen=True)
class PairStarted:
    """Pair `index` (from 0) of at most `most` begins, `spent_s` of the budget are used."""

    index: int
    most: int
    spent_s: float


@dataclass(frozen=True)
class PairProgress:
    """What the processes of the running pair do, in words."""

    text: str


@dataclass(frozen=True)
class PairFinished:
    """Pair `index` is measured and written."""

    index: int
    most: int
    pair: Pair


PairEvent = PairStarted | PairProgress | PairFinished


def measure_pairs(
    before: MeasuredSide,
    after: MeasuredSide,
    spec: RunSpec,
    *,
    turns: str,
    most: int,
    budget_s: float,
    folder: Path,
    enough: Callable[[Pairs], str],
    progress: Callable[[PairEvent], None],
) -> Pairs:
    """Measure pairs of fresh processes into `folder`, which must not exist, at least one and at most `most`.

    The runs of a pair lie in `000/before` and `000/after`, and so on. After each pair, `pairs.json` is written and
    `enough` is asked why no more are needed ("" where they are). No pair is begun that would not fit into the budget,
    judged by the median of what pairs took; the first is always measured. `ended` says what ended it.

    Raises:
        UsageError: unknown `turns`, a `most` below 1, a folder that is in use, or a side's folder that is not there.
        SideFailedError: a side did not train to the end; the pairs before are in `pairs.json`.
    """
    if turns not in TURNS:
        raise UsageError(f"turns must be {' or '.join(TURNS)}, got {turns!r}")
    if most < 1:
        raise UsageError(f"at least one pair must be measured, got {most}")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} already exists: name another folder or remove it; nothing was run")
    pairs = Pairs(variant=spec.variant, pairing=turns)
    while not pairs.end_reason:
        index = len(pairs.pairs)
        progress(PairStarted(index, most, _sum_spent_s(pairs)))
        began = read_load()
        pair = TURNS[turns](
            before, after, spec, folder / f"{index:03}", index=index, report=lambda text: progress(PairProgress(text))
        )
        pair = msgspec.structs.replace(pair, load=compute_load(began, read_load()))
        pairs = msgspec.structs.replace(pairs, pairs=(*pairs.pairs, pair))
        pairs = msgspec.structs.replace(pairs, end_reason=_find_stop_reason(pairs, most, budget_s, enough))
        write_pairs(folder / PAIRS_FILE, pairs)
        progress(PairFinished(index, most, pair))
    return pairs


def _find_stop_reason(pairs: Pairs, most: int, budget_s: float, enough: Callable[[Pairs], str]) -> str:
    """Why no more pairs are needed, or possible; "" where the next one is to be measured."""
    if reason := enough(pairs):
        return reason
    if len(pairs.pairs) >= most:
        return f"all {most} requested pairs are measured"
    spent_s, next_s = _sum_spent_s(pairs), median(pair.seconds for pair in pairs.pairs)
    if spent_s + next_s > budget_s:
        return (
            f"the budget of {format_seconds(budget_s)} is used up: {format_seconds(spent_s)} spent, a pair takes "
            f"{format_seconds(next_s)}"
        )
    return ""


def _sum_spent_s(pairs: Pairs) -> float:
    return sum(pair.seconds for pair in pairs.pairs)
