"""Finds the first bad candidate: both ends first, then the middle, by checks against the good end."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Protocol

from msgspec.structs import replace

import perfkit
from perfkit.check.bisect.result import BisectCandidate, Bisection, BisectOptions, BisectStep
from perfkit.check.bisect.search import Outcome, choose_next, find_bounds
from perfkit.check.cases import find_case
from perfkit.check.config import CheckConfig
from perfkit.check.judge.check_thresholds import Threshold
from perfkit.check.judge.outcome import OUTCOME
from perfkit.check.judge.result import Check, CheckedVariant, JudgedQuantity, Verdict
from perfkit.core.errors import PerfkitError, UsageError

# An undecided candidate is measured again with this many times the budget.
LONGER = (1, 2, 4)
_MOST_NAMED = 6


class Compare(Protocol):
    """Checks candidate `after` against `before` into the folder of this name, and returns the check."""

    def __call__(self, before: int, after: int, config: CheckConfig, *, timed: bool, folder: str) -> Check: ...


def find_change(
    bisection: Bisection,
    config: CheckConfig,
    compare: Compare,
    *,
    quantity: str | None = None,
    timed: bool = True,
    save: Callable[[Bisection], None] = lambda _: None,
) -> Bisection:
    """Search until one candidate is left, or what is left cannot be told; `save` gets each state.

    The ends are compared as a check would. Of what failed there, `quantity` (by default an exact one, else the first)
    is searched: a candidate is bad if it is certainly worse by more than half of the ends' difference, and good if that
    is excluded. One that is undecided is measured longer, and left out if that does not decide it. `bisection` may
    have steps already; these are not repeated.

    Raises:
        UsageError: the ends do not differ in `quantity`, or it has no threshold.
    """
    began = monotonic()
    last = len(bisection.candidates) - 1
    if not bisection.steps:
        bisection = _compare_ends(bisection, config, compare, quantity, timed)
        save(bisection)
    ends = bisection.steps[0].judged
    if ends is None:
        return replace(bisection, is_complete=True, seconds=bisection.seconds + monotonic() - began)
    narrow = narrow_config(config, bisection, ends)
    while True:
        outcomes = {step.index: step.outcome for step in bisection.steps}
        bounds = find_bounds(last + 1, outcomes)
        bisection = replace(bisection, last_good=bounds.last_good, first_bad=bounds.first_bad, unknown=bounds.unknown)
        index = choose_next(bounds, outcomes)
        if index is None:
            break
        bisection = replace(
            bisection, steps=(*bisection.steps, _test_candidate(bisection, index, ends, narrow, compare))
        )
        save(bisection)
    bisection = _explain_change(bisection, narrow, compare)
    return replace(bisection, is_complete=True, seconds=bisection.seconds + monotonic() - began)


def start_bisection(
    kind: str, candidates: Sequence[BisectCandidate], command: str, options: BisectOptions | None = None
) -> Bisection:
    """A bisection without steps. Raises `UsageError` with fewer than two candidates."""
    if len(candidates) < 2:
        raise UsageError("there is nothing between the good and the bad end: name others")
    return Bisection(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        kind=kind,  # type: ignore[arg-type]
        candidates=tuple(candidates),
        options=options or BisectOptions(),
    )


def narrow_config(config: CheckConfig, bisection: Bisection, ends: JudgedQuantity) -> CheckConfig:
    """The configuration that checks only the searched quantity of one variant, at half of the ends' difference."""
    case = find_case(config, bisection.workload, bisection.variant)
    assert case is not None, "the ends were compared in one of the cases"
    thresholds: dict[str, Threshold | None] = dict.fromkeys(case.resolve_thresholds())
    if ends.quantity != OUTCOME:
        thresholds[ends.quantity] = _make_halfway_threshold(ends)
    variant = bisection.variant.partition("@")[0]  # the case has the number of ranks
    return replace(config, cases=(replace(case, technique=variant, thresholds=thresholds),), thresholds=thresholds)


def classify_candidate(judged: JudgedQuantity | None, ends: JudgedQuantity) -> Outcome:
    """Which end a candidate resembles: exactly by the value, otherwise by a decided verdict at half the difference."""
    if judged is None:
        return Outcome.UNKNOWN
    if ends.quantity == OUTCOME:
        return Outcome.BAD if judged.verdict is Verdict.FAIL else Outcome.GOOD
    if judged.verdict is Verdict.NOT_COMPARED or not judged.is_decided:
        return Outcome.UNKNOWN
    if judged.exact:
        return _classify_exactly(judged, ends)
    return Outcome.BAD if judged.verdict is Verdict.FAIL else Outcome.GOOD


def _classify_exactly(judged: JudgedQuantity, ends: JudgedQuantity) -> Outcome:
    if judged.after is None or ends.after is None:
        return Outcome.UNKNOWN
    start = ends.before or 0.0
    half = (ends.after - start) / 2
    return Outcome.BAD if abs(judged.after - start) >= abs(half) and (judged.after - start) * half > 0 else Outcome.GOOD


def _make_halfway_threshold(ends: JudgedQuantity) -> Threshold:
    if ends.change is None or ends.exact:
        return Threshold(text="+0", change=0.0)  # exact values are compared with the ends' themselves
    half = abs(ends.change) / 2
    return Threshold(text=f"{half:.3%}", relative=half)


def _compare_ends(
    bisection: Bisection, config: CheckConfig, compare: Compare, quantity: str | None, timed: bool
) -> Bisection:
    last = len(bisection.candidates) - 1
    check = compare(0, last, config, timed=timed, folder="ends")
    failed = [
        (variant, judged)
        for variant in check.variants
        for judged in variant.quantities
        if judged.threshold is not None and judged.verdict is Verdict.FAIL
    ]
    chosen = _choose_quantity(check, failed, quantity)
    step = BisectStep(
        index=last,
        outcome=Outcome.BAD if chosen else Outcome.UNKNOWN,
        judged=chosen[1] if chosen else None,
        reason="" if chosen else f"{check.verdict}: no quantity failed",
        folder="ends",
        seconds=check.seconds,
    )
    if chosen is None:
        return replace(bisection, steps=(step,))
    variant, judged = chosen
    return replace(
        bisection,
        steps=(step,),
        workload=variant.workload,
        variant=variant.variant,
        quantity=judged.quantity,
        title=judged.title,
    )


def _choose_quantity(
    check: Check, failed: Sequence[tuple[CheckedVariant, JudgedQuantity]], quantity: str | None
) -> tuple[CheckedVariant, JudgedQuantity] | None:
    """The quantity to search: the named one, else that training completes, else an exact one, else the first."""
    if quantity is not None:
        named = [found for found in failed if found[1].quantity == quantity]
        judged = [each for variant in check.variants for each in variant.quantities if each.quantity == quantity]
        if not judged:
            raise UsageError(f"no variant has the quantity {quantity!r}")
        failed = named
    order = sorted(failed, key=lambda found: (found[1].quantity != OUTCOME, not found[1].exact))
    return order[0] if order else None


def _test_candidate(
    bisection: Bisection, index: int, ends: JudgedQuantity, config: CheckConfig, compare: Compare
) -> BisectStep:
    began = monotonic()
    timed = not ends.exact
    judged, reason, folder = None, "", ""
    for number, factor in enumerate(LONGER if timed else (1,)):
        folder = f"{len(bisection.steps):02}-{index}" + (f"-{number}" if number else "")
        longer = replace(config, budget_s=factor * config.budget_s)
        try:
            check = compare(0, index, longer, timed=timed, folder=folder)
        except PerfkitError as error:
            return BisectStep(
                index=index,
                outcome=Outcome.UNKNOWN,
                reason=str(error),
                folder=folder,
                seconds=monotonic() - began,
            )
        judged, reason = _find_judged(check, ends)
        if classify_candidate(judged, ends) is not Outcome.UNKNOWN or judged is None:
            break
    return BisectStep(
        index=index,
        outcome=classify_candidate(judged, ends),
        judged=judged,
        reason=reason or ("" if judged is None else judged.reason),
        folder=folder,
        seconds=monotonic() - began,
    )


def _find_judged(check: Check, ends: JudgedQuantity) -> tuple[JudgedQuantity | None, str]:
    """The searched quantity in a check of one variant, and why it is not there."""
    (variant,) = check.variants
    outcome = next((each for each in variant.quantities if each.quantity == OUTCOME), None)
    if ends.quantity == OUTCOME:
        good = JudgedQuantity(
            quantity=OUTCOME, title=ends.title, unit="", more_is_worse=True, verdict=Verdict.PASS, reason="", exact=True
        )
        return outcome or good, ""
    if outcome is not None:
        return None, outcome.reason
    return next((each for each in variant.quantities if each.quantity == ends.quantity), None), ""


def _explain_change(bisection: Bisection, config: CheckConfig, compare: Compare) -> Bisection:
    """The causes, from counts of the last good and the first bad candidate."""
    assert bisection.last_good is not None
    assert bisection.first_bad is not None
    try:
        check = compare(bisection.last_good, bisection.first_bad, config, timed=False, folder="why")
    except PerfkitError as error:
        return replace(bisection, causes=(f"unknown: {error}",))
    suspects = [text for variant in check.variants if variant.explanation for text in variant.explanation.suspects]
    return replace(
        bisection,
        causes=tuple(suspects[:_MOST_NAMED]),
        environment_differences=check.environment_differences if check.under_test == "environment" else (),
    )
