"""Judges counts that are the same in every process: one run per side decides."""

import math
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from perfkit.analysis.compare.environments import (
    EnvironmentDifference,
    describe_processor_change,
    explain_incomparable_counts,
    select_count_changes,
)
from perfkit.analysis.model.estimate import MissingEstimate
from perfkit.analysis.suite.parity import compute_loss_distance
from perfkit.check.judge.check_figures import PARITY, RunFigures
from perfkit.check.judge.check_thresholds import Threshold, get_allowed_change, is_exceeded
from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity, JudgingMethod
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit.core.parse_units import format_amount, format_precise_amount
from perfkit.core.units import format_signed_percent, format_significant

_CHANGED = (Verdict.FAIL, Verdict.WORSE, Verdict.IMPROVED)


def judge_exact_quantities(
    before: RunFigures,
    after: RunFigures,
    thresholds: Mapping[str, Threshold | None],
    differs: Sequence[EnvironmentDifference] = (),
) -> tuple[JudgedQuantity, ...]:
    """Every exact quantity, in the order of the table.

    Args:
        thresholds: by quantity; missing or None: reported, cannot fail.
        differs: environment differences between the sides; possible causes of a changed count are named.
    """
    refused = explain_incomparable_counts(differs)
    causes = "; ".join(str(difference) for difference in select_count_changes(differs))
    judged = []
    for quantity in QUANTITIES:
        if quantity.judging is not JudgingMethod.EXACT:
            continue
        threshold = thresholds.get(quantity.name)
        if refused:
            one = make_not_compared(quantity, refused, threshold=threshold)
        elif quantity.name == PARITY:
            one = judge_parity(quantity, before, after, threshold, describe_processor_change(differs))
        else:
            one = judge_exact(quantity, _get_figure(before, quantity), _get_figure(after, quantity), threshold)
        if causes and one.verdict in _CHANGED:
            one = replace(one, reason=f"{one.reason}; possible causes: {causes}")
        judged.append(one)
    return tuple(judged)


def judge_exact(
    quantity: GatedQuantity,
    before: float | MissingEstimate,
    after: float | MissingEstimate,
    threshold: Threshold | None,
) -> JudgedQuantity:
    """Compare two counts, each a value or a reason. A limit needs no value before.

    Growth within the threshold is `worse`, since a changed count is certain. `improved` is better by more than the
    threshold; for a limit, within it and beyond it before.
    """
    if isinstance(after, MissingEstimate):
        values = before if not isinstance(before, MissingEstimate) else None
        return make_not_compared(quantity, f"now: {after.reason}", before=values, threshold=threshold)
    if isinstance(before, MissingEstimate):
        if threshold is None or threshold.limit is None:
            return make_not_compared(quantity, f"before: {before.reason}", after=after, threshold=threshold)
        is_beyond = is_exceeded(threshold, after, after, more_is_worse=quantity.more_is_worse)
        verdict = Verdict.FAIL if is_beyond else Verdict.PASS
        amount = format_amount(after, quantity.unit)
        reason = f"{quantity.title}: {amount} (before: {before.reason}), {_format_allowed(threshold)}"
        return _make_judgment(quantity, verdict, reason, None, after, threshold)
    verdict = _decide_verdict(quantity, before, after, threshold)
    return _make_judgment(
        quantity, verdict, _format_reason(quantity, before, after, threshold), before, after, threshold
    )


def judge_parity(
    quantity: GatedQuantity,
    before: RunFigures,
    after: RunFigures,
    threshold: Threshold | None,
    elsewhere: str = "",
) -> JudgedQuantity:
    """Compare training on both sides: the largest relative difference of their losses, step by step.

    A loss that is no longer finite fails, whatever the threshold. `elsewhere` names processor differences between the
    sides: then only the losses around the first update decide, since training amplifies rounding.
    """
    for side, figures in (("before", before), ("now", after)):
        if not figures.losses:
            reason = f"{side}: {figures.missing.get(PARITY, 'no losses were recorded')}"
            return make_not_compared(quantity, reason, threshold=threshold)
    theirs = _take_finite(before.losses)
    if not theirs:
        return make_not_compared(quantity, "before: the loss of the first step is not finite", threshold=threshold)
    if elsewhere:
        theirs = theirs[:_AROUND_AN_UPDATE]
    ours = _take_finite(after.losses[: len(theirs)])
    if len(ours) < min(len(theirs), len(after.losses)):
        reason = f"the loss of step {len(ours) + 1} is not finite; before: {format_significant(theirs[len(ours)], 6)}"
        if threshold is None:
            return make_not_compared(quantity, reason, before=0.0)
        return _make_judgment(quantity, Verdict.FAIL, reason, 0.0, None, threshold)
    distances = [compute_loss_distance(losses_after, then) for then, losses_after in zip(theirs, ours, strict=False)]
    worst = max(distances)
    steps = "the losses of the first step" if len(distances) == 1 else f"losses of {len(distances)} steps"
    if worst == 0:
        reason = f"{steps} are equal"
    elif threshold is None:
        reason = f"{steps} differ by up to {worst:.2g}, most at step {distances.index(worst) + 1}; {_NO_THRESHOLD}"
    else:
        place = f"most at step {distances.index(worst) + 1}"
        reason = f"{steps} differ by up to {worst:.2g}, {place}; {_format_allowed(threshold)}"
    if elsewhere:
        reason += f"; later losses are not compared: processors round differently ({elsewhere})"
    elif len(theirs) < len(before.losses):
        reason += f"; before: the loss of step {len(theirs) + 1} was not finite"
    failed = threshold is not None and (
        not math.isfinite(worst) or is_exceeded(threshold, 0.0, worst, more_is_worse=True)
    )
    verdict = Verdict.FAIL if failed else Verdict.PASS
    return _make_judgment(quantity, verdict, reason, 0.0, worst if math.isfinite(worst) else None, threshold)


def make_not_compared(
    quantity: GatedQuantity,
    reason: str,
    *,
    before: float | None = None,
    after: float | None = None,
    threshold: Threshold | None = None,
) -> JudgedQuantity:
    """A quantity without a verdict, with its reason."""
    return _make_judgment(quantity, Verdict.NOT_COMPARED, reason, before, after, threshold)


_AROUND_AN_UPDATE = 2
_NO_THRESHOLD = "no threshold"


def _get_figure(figures: RunFigures, quantity: GatedQuantity) -> float | MissingEstimate:
    figure = figures.exact.get(quantity.name)
    return MissingEstimate(reason=figures.missing.get(quantity.name, "not measured")) if figure is None else figure


def _decide_verdict(quantity: GatedQuantity, before: float, after: float, threshold: Threshold | None) -> Verdict:
    if threshold is None:
        return Verdict.PASS
    worse = quantity.more_is_worse
    if is_exceeded(threshold, before, after, more_is_worse=worse):
        return Verdict.FAIL
    better = before - after if worse else after - before
    if better < 0:
        return Verdict.WORSE
    if threshold.limit is not None:
        was_beyond = is_exceeded(threshold, before, before, more_is_worse=worse)
        return Verdict.IMPROVED if was_beyond else Verdict.PASS
    return Verdict.IMPROVED if better > get_allowed_change(threshold, before) else Verdict.PASS


def _format_reason(quantity: GatedQuantity, before: float, after: float, threshold: Threshold | None) -> str:
    if before == after:
        same = f"{quantity.title} unchanged: {format_amount(after, quantity.unit)}"
        return same if threshold is None or threshold.limit is None else f"{same}, {_format_allowed(threshold)}"
    old, new = format_amount(before, quantity.unit), format_amount(after, quantity.unit)
    if old == new:
        old, new = format_precise_amount(before, quantity.unit), format_precise_amount(after, quantity.unit)
    change = f" ({_format_change(before, after)})" if before else ""
    limit = _NO_THRESHOLD if threshold is None else _format_allowed(threshold)
    return f"{quantity.title} {'grew' if after > before else 'fell'} from {old} to {new}{change}, {limit}"


def _format_change(before: float, after: float) -> str:
    """`+2.4 %`, with enough decimals to differ from zero."""
    change = after / before - 1
    digits = 1 if abs(change) >= 1e-3 else min(9, 1 - math.floor(math.log10(abs(change) * 100)))
    return format_signed_percent(change, digits)


def _format_allowed(threshold: Threshold) -> str:
    return f"limit {threshold.text}" if threshold.limit is not None else f"allowed {threshold.text}"


def _take_finite(losses: Sequence[float | None]) -> list[float]:
    """The losses up to the first that is not finite."""
    finite: list[float] = []
    for loss in losses:
        if loss is None or not math.isfinite(loss):
            break
        finite.append(loss)
    return finite


def _make_judgment(
    quantity: GatedQuantity,
    verdict: Verdict,
    reason: str,
    before: float | None,
    after: float | None,
    threshold: Threshold | None,
) -> JudgedQuantity:
    known = before is not None and after is not None and before != 0
    return JudgedQuantity(
        quantity=quantity.name,
        title=quantity.title,
        unit=quantity.unit,
        more_is_worse=quantity.more_is_worse,
        verdict=verdict,
        reason=reason,
        before=before,
        after=after,
        change=after / before - 1 if known and after is not None and before is not None else None,
        threshold=threshold,
        exact=quantity.judging is JudgingMethod.EXACT,
    )
