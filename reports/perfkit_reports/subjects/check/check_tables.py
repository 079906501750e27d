"""Raw rows of a check."""

import math
from typing import Any

from perfkit.analysis.model.difference import ChangeRow
from perfkit.check.judge.process_pairs import compute_pair_ratio
from perfkit.check.judge.result import Check, CheckedVariant, JudgedQuantity, MemoryChange
from perfkit.store.pairs import Pair
from perfkit_reports.document.tables import RawTable, build_owned_data, build_schema, extract_fields

_OF = {"workload": str, "variant": str}
_JUDGED = build_schema(JudgedQuantity, **_OF, threshold=str)
_PAIRS = {
    **_OF,
    "pair": int,
    "pairing": str,
    "seconds": float,
    "step_time_change": float,
    "cpu_time_change": float,
    "other_cores": float,
    "stolen_cores": float,
}

_Rows = list[dict[str, Any]]


def build_data(check: Check) -> tuple[RawTable, ...]:
    """Every judged quantity, pair, op and change at the peak, with its variant."""
    whys = [
        ((variant.workload, variant.variant), variant.explanation) for variant in check.variants if variant.explanation
    ]
    return (
        RawTable("judged", _JUDGED, lambda: [row for variant in check.variants for row in _list_judged(variant)]),
        RawTable("pairs", _PAIRS, lambda: [row for variant in check.variants for row in _list_pairs(variant)]),
        build_owned_data("ops", ChangeRow, _OF, whys, lambda why: why.time.changes if why.time else ()),
        build_owned_data("memory", MemoryChange, _OF, whys, lambda why: why.memory_rows),
    )


def _get_owner(variant: CheckedVariant) -> dict[str, str]:
    return {"workload": variant.workload, "variant": variant.variant}


def _list_judged(variant: CheckedVariant) -> _Rows:
    return [
        extract_fields(
            _JUDGED, judged, **_get_owner(variant), threshold=judged.threshold.text if judged.threshold else None
        )
        for judged in variant.quantities
    ]


def _list_pairs(variant: CheckedVariant) -> _Rows:
    return [
        {
            **_get_owner(variant),
            "pair": number,
            "pairing": variant.pairing,
            "seconds": pair.seconds,
            **{f"{clock}_change": _compute_change(pair, clock, variant.pairing) for clock in ("step_time", "cpu_time")},
            "other_cores": None if pair.load is None else pair.load.other_cores,
            "stolen_cores": None if pair.load is None else pair.load.stolen_cores,
        }
        for number, pair in enumerate(variant.pairs, 1)
    ]


def _compute_change(pair: Pair, clock: str, turns: str) -> float | None:
    ratio = compute_pair_ratio(pair, clock, turns)
    return None if ratio is None else math.expm1(ratio)
