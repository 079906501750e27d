"""Finds the conventions and mistakes that reproduce a printed figure."""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from perfkit.mfu.audit_model import ClaimMatch, MfuClaim, Mistake
from perfkit.mfu.conventions import (
    CONVENTIONS,
    FlopsPerToken,
    Formula,
    Keys,
    ParamSet,
    Recomputation,
    count_flops,
)
from perfkit.mfu.mistakes import Setting, list_peak_mistakes, list_work_mistakes
from perfkit.mfu.model_shape import ModelShape
from perfkit.mfu.written_number import COUNT, PERCENT, WrittenClaim

# Peaks are printed with three digits (989 for 989.4), and parameters of a config in full.
_PEAK_ERROR = 0.0006
_MOST_NEAREST = 3
_NAMES: Mapping[Formula, tuple[str, str]] = {
    convention.formula: (convention.id, convention.name) for convention in reversed(CONVENTIONS)
}
_ALL_EXPERTS = "all experts counted, not those that a token passes"
_TWICE = "attention counted twice"


def explain_claim(
    claim: WrittenClaim,
    shape: ModelShape,
    seq_len: int | None,
    setting: Setting,
    rate: float | None,
    input_error: float,
) -> MfuClaim:
    """Find what reproduces a claim.

    Args:
        rate: tokens per second of one GPU; needed unless the claim is of FLOPs of a token.
        input_error: the relative error of the figures given.

    A way is a formula, with at most one mistake: two mistakes reproduce almost any figure.
    """
    scale = _find_scale(claim, setting, rate)
    tolerance = claim.number.error + input_error + (_PEAK_ERROR if claim.unit == PERCENT else 0.0)
    found = [] if scale is None else list(_list_ways(claim, shape, seq_len, setting, scale))
    matches = _order(way for way in found if abs(way.difference) <= tolerance * (1 + 1e-9))
    nearest = () if matches else tuple(sorted(found, key=lambda way: abs(way.difference))[:_MOST_NEAREST])
    values = sorted({round(math.log(way.value), 6) for way in found})
    width = values[-1] - values[0] if len(values) > 1 else 0.0
    return MfuClaim(
        value=claim.number.value,
        unit=claim.unit,
        tolerance=tolerance,
        matches=matches,
        nearest=nearest,
        tried=len(found),
        by_chance=len(values) * 2 * tolerance / width if width else 0.0,
    )


def _find_scale(claim: WrittenClaim, setting: Setting, rate: float | None) -> float | None:
    """What FLOPs of a token are multiplied with; None where too little is known."""
    if claim.unit == COUNT:
        return 1.0
    if rate is None:
        return None
    if claim.unit == PERCENT:
        return None if setting.peak is None else rate / setting.peak.dense
    return rate


def _list_ways(
    claim: WrittenClaim, shape: ModelShape, seq_len: int | None, setting: Setting, scale: float
) -> Iterator[ClaimMatch]:
    mistakes: list[Mistake] = []
    if claim.unit == PERCENT:
        mistakes += list_peak_mistakes(setting)
    work = list(list_work_mistakes(setting))
    mistakes += [mistake for mistake in work if claim.unit != COUNT or mistake.id in ("forward_only", "multiply_adds")]
    for formula, counted in _list_formulas(shape, seq_len):
        value = counted.value * scale
        for mistake in (None, *mistakes):
            yield _make_match(claim, formula, counted.text, value, mistake)
        if shape.inactive_params:
            everything = count_flops(formula, shape, seq_len, all_experts=True)
            if isinstance(everything, FlopsPerToken) and everything.value != counted.value:
                wrong = Mistake(id="experts.all", text=_ALL_EXPERTS, factor=everything.value / counted.value)
                yield _make_match(claim, formula, counted.text, value, wrong)
        if setting.gpus > 1:
            params = counted.terms[1].value
            factor = (counted.value - params + params / setting.gpus) / counted.value
            wrong = Mistake(id="params.sharded", text=f"parameters of one of {setting.gpus} shards", factor=factor)
            yield _make_match(claim, formula, counted.text, value, wrong)
        if formula.keys == Keys.ALL and formula.recomputation == Recomputation.NONE:
            pairs = counted.terms[-1].value
            wrong = Mistake(id="attention.twice", text=_TWICE, factor=(counted.value + pairs) / counted.value)
            yield _make_match(claim, formula, counted.text, value, wrong)


def _list_formulas(shape: ModelShape, seq_len: int | None) -> Iterator[tuple[Formula, FlopsPerToken]]:
    """The formulas that the model has terms for, those with a name first; of equal ones the first alone."""
    named = [convention.formula for convention in CONVENTIONS]
    others = [Formula(params, keys) for params, keys in product(ParamSet, Keys) if params != ParamSet.GPT]
    recomputed = [
        Formula(params, keys, recomputation)
        for params, keys, recomputation in product(_RECOMPUTED_PARAMS, _RECOMPUTED_KEYS, Recomputation)
    ]
    seen: set[float] = set()
    for formula in dict.fromkeys((*named, *others, *recomputed)):
        counted = count_flops(formula, shape, seq_len)
        if isinstance(counted, FlopsPerToken) and counted.value not in seen:
            seen.add(counted.value)
            yield formula, counted


_RECOMPUTED_PARAMS = (ParamSet.ALL, ParamSet.NO_LOOKUPS)
_RECOMPUTED_KEYS = (Keys.ALL, Keys.HALF)


def _make_match(claim: WrittenClaim, formula: Formula, text: str, value: float, mistake: Mistake | None) -> ClaimMatch:
    given = value * (mistake.factor if mistake is not None else 1.0)
    id, name = _NAMES.get(formula, ("", ""))
    return ClaimMatch(
        convention=id,
        name=name,
        formula=text,
        mistake=mistake,
        value=given,
        corrected=value,
        difference=given / claim.number.value - 1,
    )


def _order(ways: Iterable[ClaimMatch]) -> tuple[ClaimMatch, ...]:
    """Without a mistake first, then by a formula with a name, then the nearest."""
    return tuple(sorted(ways, key=_rank))


def _rank(way: ClaimMatch) -> tuple[bool, bool, float]:
    return way.mistake is not None, not way.convention, abs(way.difference)
