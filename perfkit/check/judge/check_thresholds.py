"""Parses and applies thresholds: `3%`, `+64MiB`, `<=2GiB`."""

import math
from collections.abc import Iterable

from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity
from perfkit.core.errors import UsageError
from perfkit.core.parse_units import EXAMPLES, SUFFIXES, parse_amount
from perfkit.core.spec import Struct

# Rounding tolerance of doubles; without it 0.5 % of 200 is sometimes less than 1.
_ROUNDING = 1e-12


class Threshold(Struct):
    """The allowed worsening of a figure. Exactly one of the three is set; `text` is as written.

    `relative` is a share of the value before, `change` an absolute change in the quantity's unit, both >= 0 and in the
    worse direction; `limit` bounds the value itself: from above if more is worse, else from below.
    """

    text: str
    relative: float | None = None
    change: float | None = None
    limit: float | None = None


def parse_threshold(text: str | int | float, unit: str, *, more_is_worse: bool) -> Threshold:
    """A threshold as written, for a quantity of this unit.

    `3%` is a share of the value before. `+64MiB` is an absolute change (`-100` if less is worse). `<=2GiB` limits the
    value itself (`>=40%` if less is worse). 0 allows no change. Raises `UsageError` for anything else, with the
    quantity's forms.
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
    """True if `after` is worse than the threshold allows. With a limit, `before` is ignored."""
    if threshold.limit is not None:
        exceeds = after - threshold.limit if more_is_worse else threshold.limit - after
        return exceeds > _ROUNDING * abs(threshold.limit)
    worse = after - before if more_is_worse else before - after
    return worse > get_allowed_change(threshold, before) * (1 + _ROUNDING)


def get_allowed_change(threshold: Threshold, before: float) -> float:
    """The absolute worsening that a relative or absolute threshold allows, in the quantity's unit."""
    if threshold.relative is not None:
        return threshold.relative * abs(before)
    assert threshold.change is not None, "a limit allows no change, it bounds the value"
    return threshold.change


def compute_margin(threshold: Threshold, before: float, *, more_is_worse: bool = True) -> float | None:
    """The allowed worsening as a share of `before`; None if `before` is 0.

    For a limit, the remaining distance, negative if `before` is beyond it.
    """
    if threshold.relative is not None:
        return threshold.relative
    if before == 0:
        return None
    if threshold.limit is not None:
        remaining = threshold.limit - before if more_is_worse else before - threshold.limit
        return remaining / abs(before)
    return get_allowed_change(threshold, before) / abs(before)


def _parse_number(number: float, unit: str, more_is_worse: bool) -> Threshold:
    """A number from a configuration file: only 0 is unambiguous without sign and unit."""
    if number != 0:
        raise UsageError(
            f"{number} is not a threshold (it may be a share, a change or a limit): "
            f"{_format_forms(unit, more_is_worse)}"
        )
    return Threshold(text=str(number), change=0.0)


def _parse_change(text: str, unit: str) -> float:
    if text.rstrip().endswith("%"):
        raise UsageError(f"{text!r} of a share is ambiguous (points or relative); write, for example, 0.02")
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
    """A likely mistake, in parentheses."""
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
    """The quantities' default thresholds by name; None if only reported."""
    return {
        quantity.name: None
        if quantity.default is None
        else parse_threshold(quantity.default, quantity.unit, more_is_worse=quantity.more_is_worse)
        for quantity in quantities
    }
