"""Measures pairs until the verdicts are decided or the budget is used up."""

from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from perfkit.check.sides import alternating_pairs, lockstep
from perfkit.check.sides.pair_events import PairEvent, PairFinished, PairProgress, PairStarted
from perfkit.check.sides.side import MeasuredSide
from perfkit.core.errors import UsageError
from perfkit.core.spec import RunSpec
from perfkit.core.units import format_seconds
from perfkit.instruments.sensors.machine_load import compute_load, read_load
from perfkit.store.pairs import ALTERNATING, LOCK_STEP, PAIRS_FILE, Pair, Pairs, write_pairs

TURNS: dict[str, Callable[..., Pair]] = {
    LOCK_STEP: lockstep.measure_pair,
    ALTERNATING: alternating_pairs.measure_pair,
}


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
    """Measure at least one and at most `most` pairs of fresh processes into the new folder `folder`.

    The runs of a pair are in `000/before` and `000/after`, and so on. After each pair, `pairs.json` is written and
    `enough` returns a reason to stop, or "". A pair that would not fit into the budget, by the median time per pair, is
    not started; the first is always measured. `ended` is the reason for the end.

    Raises:
        UsageError: unknown `turns`, `most` below 1, a folder in use, or a side's missing folder.
        SideFailedError: a side did not complete training; earlier pairs are in `pairs.json`.
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
    """Reason that no more pairs are needed or possible; "" to measure the next one."""
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
