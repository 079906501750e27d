"""Compares variants of suites: the figures of each, and its speed-up over its own baseline."""

from collections.abc import Callable, Sequence

from perfkit.analysis.compare.compared_figures import LESS, MORE, PEAK, STEP
from perfkit.analysis.compare.sides import AT, LoadedSide
from perfkit.analysis.model.comparison import ComparedAmount, ComparedFigure, ComparedVariant
from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Variant
from perfkit.core.record.quantity import Measurement

SPEED_UP = "Speed-up"
TIMES = "x"  # the unit of a speed-up

_Pick = Callable[[Variant], ComparedAmount]


def compare_variants(sides: Sequence[LoadedSide]) -> tuple[ComparedVariant, ...]:
    """Compare the variants that at least two suites have, in the order of the first; none unless two are suites."""
    names = dict.fromkeys(variant.name for side in sides for variant in side.variants)
    compared = []
    for name in names:
        variants = [_find_variant(side, name) for side in sides]
        if sum(variant is not None for variant in variants) > 1:
            compared.append(ComparedVariant(name=name, figures=_compare_variant_figures(variants)))
    return tuple(compared)


def find_unshared_variants(sides: Sequence[LoadedSide]) -> dict[str, tuple[str, ...]]:
    """The variants that only one suite has, by run; empty unless two are suites."""
    suites = [side for side in sides if side.variants]
    if len(suites) < 2:
        return {}
    unshared = {}
    for suite in suites:
        others = {variant.name for other in suites if other is not suite for variant in other.variants}
        if own := tuple(variant.name for variant in suite.variants if variant.name not in others):
            unshared[suite.side.name.removesuffix(f"{AT}{suite.side.subject}")] = own
    return unshared


def _find_variant(side: LoadedSide, name: str) -> Variant | None:
    return next((variant for variant in side.variants if variant.name == name), None)


def _compare_variant_figures(variants: Sequence[Variant | None]) -> tuple[ComparedFigure, ...]:
    rates = {variant.throughput_unit for variant in variants if variant is not None and variant.throughput_unit}
    rate = rates.pop() if len(rates) == 1 else "units/s"
    prices = {
        variant.cost.unit for variant in variants if variant is not None and isinstance(variant.cost, MedianEstimate)
    }
    rows: list[tuple[str, str, str, _Pick]] = [
        (STEP, "s", LESS, lambda variant: _convert_estimate(variant.step_time)),
        (SPEED_UP, TIMES, MORE, _get_speed_up),
        ("Throughput", rate, MORE, lambda variant: _convert_estimate(variant.throughput)),
        (PEAK, "bytes", LESS, _get_peak_memory),
    ]
    if len(prices) == 1:
        rows.append(
            (
                "Cost",
                prices.pop(),
                LESS,
                lambda variant: _convert_estimate(variant.cost or MissingEstimate(reason="no price")),
            )
        )
    figures = [
        ComparedFigure(
            title=title, unit=unit, better=better, amounts=tuple(_get_amount(variant, pick) for variant in variants)
        )
        for title, unit, better, pick in rows
    ]
    return tuple(figure for figure in figures if any(amount.value is not None for amount in figure.amounts))


def _get_amount(variant: Variant | None, pick: _Pick) -> ComparedAmount:
    return ComparedAmount(value=None, reason="no such variant") if variant is None else pick(variant)


def _convert_estimate(figure: MedianEstimate | MissingEstimate) -> ComparedAmount:
    if isinstance(figure, MissingEstimate):
        return ComparedAmount(value=None, reason=figure.reason)
    return ComparedAmount(value=figure.value, low=figure.low, high=figure.high, source=figure.source)


def _get_speed_up(variant: Variant) -> ComparedAmount:
    """The inverse of the time ratio of paired processes."""
    difference = variant.difference
    if difference is None:
        why = variant.emulation_reason or variant.reason or "no baseline to compare with"
        return ComparedAmount(value=None, reason="this is the baseline" if variant.is_baseline else why)
    return ComparedAmount(
        value=1 / difference.ratio,
        low=None if difference.high is None else 1 / difference.high,
        high=None if difference.low is None else 1 / difference.low,
        source=f"{difference.verdict} compared with {difference.baseline}, run side by side",
    )


def _get_peak_memory(variant: Variant) -> ComparedAmount:
    peak = variant.peak_allocated
    if isinstance(peak, Measurement):
        return ComparedAmount(value=peak.value, source=peak.source)
    return ComparedAmount(value=None, reason=peak.reason)
