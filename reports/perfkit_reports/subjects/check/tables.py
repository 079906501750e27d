"""The raw rows of a check."""

import math
from typing import Any

from perfkit.analysis.model.difference import ChangeRow
from perfkit.check.judge.process_pairs import compute_pair_ratio
from perfkit.check.result import Check, CheckedVariant, JudgedQuantity, MemoryChange
from perfkit.store.pairs import Pair
from perfkit_reports.document.tables import Data, fields, owned, schema_of

_OF = {"workload": str, "variant": str}
_JUDGED = schema_of(JudgedQuantity, **_OF, threshold=str)
_PAIRS = {
    **_OF,
    "pair": int,
    "turns": str,
    "seconds": float,
    "step_time_change": float,
    "cpu_time_change": float,
    "other_cores": float,
    "stolen_cores": float,
}

_Rows = list[dict[str, Any]]


def data(check: Check) -> tuple[Data, ...]:
    """Every judged quantity, every pair, every op and what else changed at the peak, with its variant."""
    whys = [((variant.workload, variant.variant), variant.why) for variant in check.variants if variant.why]
    return (
        Data("judged", _JUDGED, lambda: [row for variant in check.variants for row in _judged(variant)]),
        Data("pairs", _PAIRS, lambda: [row for variant in check.variants for row in _pairs(variant)]),
        owned("ops", ChangeRow, _OF, whys, lambda why: why.time.changes if why.time else ()),
        owned("memory", MemoryChange, _OF, whys, lambda why: why.memory_rows),
    )


def _of(variant: CheckedVariant) -> dict[str, str]:
    return {"workload": variant.workload, "variant": variant.variant}


def _judged(variant: CheckedVariant) -> _Rows:
    return [
        fields(_JUDGED, judged, **_of(variant), threshold=judged.threshold.text if judged.threshold else None)
        for judged in variant.judged
    ]


def _pairs(variant: CheckedVariant) -> _Rows:
    return [
        {
            **_of(variant),
            "pair": number,
            "turns": variant.turns,
            "seconds": pair.seconds,
            **{f"{clock}_change": _change(pair, clock, variant.turns) for clock in ("step_time", "cpu_time")},
            "other_cores": None if pair.load is None else pair.load.others,
            "stolen_cores": None if pair.load is None else pair.load.stolen,
        }
        for number, pair in enumerate(variant.pairs, 1)
    ]


def _change(pair: Pair, clock: str, turns: str) -> float | None:
    ratio = compute_pair_ratio(pair, clock, turns)
    return None if ratio is None else math.expm1(ratio)
