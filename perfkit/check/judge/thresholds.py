"""How much worse a figure may get: `3%`, `+64MiB`, `<=2GiB`."""

import math
from collections.abc import Iterable

from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity
from perfkit.errors import UsageError
from perfkit.parse_units import EXAMPLES, SUFFIXES, parse_amount
from perfkit.spec import Struct

# What sums and products of doubles may be off by. Without it 0.5 % of 200 is sometimes less than 1.
_ROUNDING = 1e-12


class Threshold(Struct):
    """The most that a figure may get worse. Exactly one of the three is set; `text` is what was given.

    `relative` is a share of the value before, `change` an absolute change in the quantity's unit, both >= 0 and in the
    direction that is worse; `limit` bounds the value itself: from above where more is worse, else from below.
    """

    text: str
    relative: float | None = None
    change: float | None = None
    limit: float | None = None


def parse_threshold(text: str | int | float, unit: str, *, more_is_worse: bool) -> Threshold:
    """A threshold as written, for a quantity of this unit.

    `3%` is a share of the value before. `+64MiB` is an absolute change, `-100` one where less is worse. `<=2GiB` limits
    the value itself, `>=40%` where less is worse. 0 stands for no change at all. Raises `UsageError` for anything else,
    with the forms that the quantity takes.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise UsageError(f"{text!r} is not a threshold: {_format_forms(unit, more_is_worse)}")
    if not isinstance(text, str):
        return _parse_number(text, unit, more_is_worse)
    given = text.strip()
    sign, limit = ("+", "<=") if more_is_worse else ("-", ">=")
    try:
        if given.startswith(limit):
            return Threshold(text=given, limit=parse_amount(given[2:], unit))
        if given.startswith(sign) and (unit == "1" or "%" not in given):
            return Threshold(text=given, change=_parse_change(given[1:], unit))
        if given.endswith("%") and given[:1] not in ("+", "-", "<", ">"):
            return Threshold(text=given, relative=_parse_share(given[:-1], more_is_worse))
    except UsageError as error:
        raise UsageError(f"{given!r} is not a threshold ({error}): {_format_forms(unit, more_is_worse)}") from None
    if _is_zero(given):
        return Threshold(text=given, change=0.0)
    wrong = _explain_mistake(given, more_is_worse)
    raise UsageError(f"{given!r} is not a threshold{wrong}: {_format_forms(unit, more_is_worse)}")


def is_exceeded(threshold: Threshold, before: float, after: float, *, more_is_worse: bool) -> bool:
    """Whether `after` is worse than the threshold allows. With a limit `before` does not matter."""
    if threshold.limit is not None:
        beyond = after - threshold.limit if more_is_worse else threshold.limit - after
        return beyond > _ROUNDING * abs(threshold.limit)
    worse = after - before if more_is_worse else before - after
    return worse > get_allowed_change(threshold, before) * (1 + _ROUNDING)


def get_allowed_change(threshold: Threshold, before: float) -> float:
    """The absolute worsening that a relative or absolute threshold allows, in the quantity's unit."""
    if threshold.relative is not None:
        return threshold.relative * abs(before)
    assert threshold.change is not None, "a limit allows no change, it bounds the value"
    return threshold.change


def compute_margin(threshold: Threshold, before: float, *, more_is_worse: bool = True) -> float | None:
    """The worsening that is allowed as a share of `before`; None where `before` is 0, of which nothing is a share.

    Of a limit it is the way that is left to it, negative where `before` is beyond it already.
    """
    if threshold.relative is not None:
        return threshold.relative
    if before == 0:
        return None
    if threshold.limit is not None:
        left = threshold.limit - before if more_is_worse else before - threshold.limit
        return left / abs(before)
    return get_allowed_change(threshold, before) / abs(before)


def _parse_number(number: float, unit: str, more_is_worse: bool) -> Threshold:
    """A number as a configuration file may hold it: only 0 is clear without a sign and a unit."""
    if number != 0:
        raise UsageError(
            f"{number} is not a threshold (it may be a share, a change or a limit): "
            f"{_format_forms(unit, more_is_worse)}"
        )
    return Threshold(text=str(number), change=0.0)


def _parse_change(text: str, unit: str) -> float:
    if text.rstrip().endswith("%"):
        raise UsageError(f"{text!r} of a share is ambiguous (points or relative); write such as 0.02")
    if text[:1] in ("+", "-"):
        raise UsageError("it has two signs")
    return parse_amount(text, unit)


def _parse_share(text: str, more_is_worse: bool) -> float:
    share = parse_amount(text, "") / 100
    if not more_is_worse and share > 1:
        raise UsageError("a decrease cannot exceed 100%")
    return share


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0
    except ValueError:
        return False


def _explain_mistake(given: str, more_is_worse: bool) -> str:
    """What is wrong, in brackets, where one mistake is likely."""
    sign, limit = ("-", ">=") if more_is_worse else ("+", "<=")
    worse, better = ("more", "less") if more_is_worse else ("less", "more")
    if given.startswith((sign, limit)):
        return f" ({worse} is worse here; {better} needs no threshold)"
    if given.startswith(("+", "-")) and given.endswith("%"):
        return f" (a relative threshold has no sign: {given[1:]})"
    if given.startswith(("<", ">")):
        return " (a limit already allows everything up to it)"
    try:
        known = math.isfinite(float(given))
    except ValueError:
        return ""
    return " (a plain number may be a share, a change or a limit)" if known else ""


def _format_forms(unit: str, more_is_worse: bool) -> str:
    sign, limit = ("+", "<=") if more_is_worse else ("-", ">=")
    example = EXAMPLES[unit]
    bound = "40%" if unit == "1" and not more_is_worse else example
    units = ", ".join(suffix for suffix in SUFFIXES[unit] if suffix and unit != "1")
    return f"expected 3% (relative), {sign}{example} (a change) or {limit}{bound} (a limit)" + (
        f"; units: {units}" if units else ""
    )


def get_default_thresholds(quantities: Iterable[GatedQuantity] = QUANTITIES) -> dict[str, Threshold | None]:
    """The quantities' own, by name; None where one is reported only."""
    return {
        quantity.name: None
        if quantity.default is None
        else parse_threshold(quantity.default, quantity.unit, more_is_worse=quantity.more_is_worse)
        for quantity in quantities
    }
