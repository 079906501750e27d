"""Derives a verdict from an estimated worsening, with its reason and the data needed to decide."""

import math
from dataclasses import dataclass

from perfkit.check.judge.check_thresholds import Threshold
from perfkit.check.judge.looks import ALPHA
from perfkit.check.judge.quantities import GatedQuantity
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit.check.judge.worsening import Worsening
from perfkit.core.units import format_percent, format_seconds, format_signed_percent


@dataclass(frozen=True, kw_only=True)
class Question:
    """One quantity to judge: its values on both sides, its threshold, and its samples.

    `unit` names the samples (`pairs`); `sample_s` is the time per sample, None if unknown.
    """

    quantity: GatedQuantity
    threshold: Threshold | None
    before: float | None = None
    after: float | None = None
    samples: int = 0
    unit: str = "pairs"
    sample_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class SignificanceLevels:
    """One-sided levels of this look and of the last one, and the number of quantities tested together.

    The p-values are Holm's, adjusted over the quantities.
    """

    alpha: float
    last_alpha: float
    family: int
    p_worse: float
    p_better: float


def decide_verdict(worsening: Worsening, levels: SignificanceLevels) -> Verdict:
    """A certain worsening is a `fail` if the estimate exceeds the threshold, else `worse`.

    Otherwise it is a `pass` if the interval excludes a worsening of the threshold's size, else inconclusive. It is
    `improved` if the interval excludes no improvement and the estimate exceeds half the threshold. Without a threshold
    nothing fails.
    """
    if worsening.margin is None:
        return Verdict.PASS
    estimate, reach = worsening.mean.value, worsening.mean.compute_reach(levels.alpha)
    if not math.isfinite(reach):
        return Verdict.INCONCLUSIVE
    if levels.p_better <= levels.alpha and estimate < -max(worsening.margin, 0.0) / 2:
        return Verdict.IMPROVED
    if levels.p_worse <= levels.alpha:
        return Verdict.FAIL if estimate > worsening.margin else Verdict.WORSE
    return Verdict.PASS if estimate + reach < worsening.margin else Verdict.INCONCLUSIVE


def is_decided(verdict: Verdict, worsening: Worsening, levels: SignificanceLevels) -> bool:
    """True if the interval allows no other verdict; for a worsening it must exclude the threshold.

    Otherwise a first look at few pairs would decide: significant results are overestimates there.
    """
    if worsening.margin is None or verdict not in (Verdict.FAIL, Verdict.WORSE):
        return verdict is not Verdict.INCONCLUSIVE
    return abs(worsening.mean.value - worsening.margin) > worsening.mean.compute_reach(levels.alpha)


def judge_quantity(question: Question, worsening: Worsening, levels: SignificanceLevels) -> JudgedQuantity:
    """The verdict on one quantity, with figures and reason."""
    verdict = decide_verdict(worsening, levels)
    interval = worsening.compute_interval(levels.alpha)
    low, high = (None, None) if interval is None else interval
    return make_judgment(
        question,
        verdict,
        _format_reason(question, worsening, levels, verdict),
        change=worsening.compute_change(worsening.mean.value),
        low=low,
        high=high,
        detectable=worsening.compute_detectable(levels.alpha, levels.family) if interval else None,
        to_decide=_format_needed_samples(question, worsening, levels) if verdict is Verdict.INCONCLUSIVE else "",
        decided=is_decided(verdict, worsening, levels),
    )


def make_judgment(
    question: Question,
    verdict: Verdict,
    reason: str,
    *,
    change: float | None = None,
    low: float | None = None,
    high: float | None = None,
    detectable: float | None = None,
    to_decide: str = "",
    decided: bool | None = None,
) -> JudgedQuantity:
    """The `JudgedQuantity` with all available estimates; `decided` by default unless inconclusive."""
    quantity = question.quantity
    return JudgedQuantity(
        quantity=quantity.name,
        title=quantity.title,
        unit=quantity.unit,
        more_is_worse=quantity.more_is_worse,
        verdict=verdict,
        reason=reason,
        before=question.before,
        after=question.after,
        change=change,
        low=low,
        high=high,
        level=None if low is None else 1 - ALPHA,
        threshold=question.threshold,
        detectable=detectable,
        data_needed=to_decide,
        is_decided=verdict is not Verdict.INCONCLUSIVE if decided is None else decided,
        samples=question.samples,
    )


def _format_reason(question: Question, worsening: Worsening, levels: SignificanceLevels, verdict: Verdict) -> str:
    interval = worsening.compute_interval(levels.alpha)
    if worsening.margin is None:
        return "no threshold is set" if interval else f"no threshold; {_format_too_few(question)}"
    if interval is None:
        return _format_too_few(question)
    low, high = (format_signed_percent(end) for end in interval)
    sure = format_percent(1 - ALPHA, 0)
    worst, least = (high, low) if worsening.more_is_worse else (low, high)
    allowed = "" if question.threshold is None else f" {question.threshold.text}"
    if verdict is Verdict.PASS:
        return f"{worst} or worse is ruled out ({sure} confidence); threshold{allowed}"
    if verdict in (Verdict.FAIL, Verdict.WORSE):
        position = "above" if verdict is Verdict.FAIL else "within"
        certainty = "certainly" if is_decided(verdict, worsening, levels) else "estimate"
        return (
            f"worse by at least {least.lstrip('+-')} ({sure} confidence); {certainty} {position} the{allowed} threshold"
        )
    if verdict is Verdict.IMPROVED:
        return f"better by at least {worst.lstrip('+-')} ({sure} confidence)"
    if worsening.margin <= 0:
        return f"{low} to {high}: measurement cannot show zero change; set a threshold above 0"
    if worsening.p_worse <= levels.alpha:
        return (
            f"{low} to {high}: significant alone, but not among the {levels.family} quantities tested together (Holm)"
        )
    return f"{low} to {high} ({sure} confidence): cannot rule out a regression beyond{allowed or ' the threshold'}"


def _format_too_few(question: Question) -> str:
    return f"{question.samples} {question.unit} are too few for an interval"


def _format_needed_samples(question: Question, worsening: Worsening, levels: SignificanceLevels) -> str:
    if worsening.margin is None or worsening.margin <= 0 or not math.isfinite(worsening.margin):
        return ""
    change = format_percent(abs(worsening.compute_change(worsening.margin)))
    needed = worsening.count_samples_to_decide(levels.last_alpha / levels.family)
    if needed is None:
        return f"too noisy to detect a {change} change with an affordable number of {question.unit}"
    more = needed - question.samples
    cost = "" if question.sample_s is None else f" ({format_seconds(more * question.sample_s)})"
    return f"about {float(f'{more:.1e}'):,.0f} more {question.unit}{cost} detect a {change} change"
