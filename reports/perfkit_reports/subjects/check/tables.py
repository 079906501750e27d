"""The raw rows of a check."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from perfkit.analysis.model.difference import ChangeRow
from perfkit.check.judge.paired import pair_ratio
from perfkit.check.result import Check, CheckedVariant, Judged, MemoryChange
from perfkit.store.pairs import Pair
from perfkit_reports.document.tables import Data, fields, schema_of

_OF = {"workload": str, "variant": str}
_JUDGED = schema_of(Judged, **_OF, threshold=str)
_PAIRS = {**_OF, "pair": int, "turns": str, "seconds": float, "step_time_change": float, "cpu_time_change": float}
_OPS = schema_of(ChangeRow, **_OF)
_MEMORY = schema_of(MemoryChange, **_OF)

_Rows = list[dict[str, Any]]


def data(check: Check) -> tuple[Data, ...]:
    """Every judged quantity, every pair, every op and what else changed at the peak, with its variant."""
    return (
        Data("judged", _JUDGED, partial(_judged, check)),
        Data("pairs", _PAIRS, partial(_pairs, check)),
        Data("ops", _OPS, partial(_ops, check)),
        Data("memory", _MEMORY, partial(_memory, check)),
    )


def _variants(check: Check) -> Iterator[tuple[dict[str, str], CheckedVariant]]:
    return (({"workload": variant.workload, "variant": variant.variant}, variant) for variant in check.variants)


def _judged(check: Check) -> _Rows:
    return [
        fields(_JUDGED, judged, **of, threshold=judged.threshold.text if judged.threshold else None)
        for of, variant in _variants(check)
        for judged in variant.judged
    ]


def _pairs(check: Check) -> _Rows:
    return [
        {
            **of,
            "pair": number,
            "turns": variant.turns,
            "seconds": pair.seconds,
            **{f"{clock}_change": _change(pair, clock, variant.turns) for clock in ("step_time", "cpu_time")},
        }
        for of, variant in _variants(check)
        for number, pair in enumerate(variant.pairs, 1)
    ]


def _change(pair: Pair, clock: str, turns: str) -> float | None:
    ratio = pair_ratio(pair, clock, turns)
    return None if ratio is None else math.expm1(ratio)


def _ops(check: Check) -> _Rows:
    return [
        fields(_OPS, change, **of)
        for of, variant in _variants(check)
        if variant.why is not None and variant.why.time is not None
        for change in variant.why.time.changes
    ]


def _memory(check: Check) -> _Rows:
    return [
        fields(_MEMORY, change, **of)
        for of, variant in _variants(check)
        if variant.why is not None
        for change in variant.why.memory_rows
    ]
