"""Judges quantities with one figure per process: compile time, data wait, energy, communication."""

from collections.abc import Sequence
from math import log
from statistics import fmean, median

from perfkit.check.judge.check_thresholds import Threshold, compute_margin, get_allowed_change
from perfkit.check.judge.check_verdicts import Question, SignificanceLevels, judge_quantity, make_judgment
from perfkit.check.judge.looks import ALPHA
from perfkit.check.judge.quantities import GatedQuantity
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit.check.judge.student import MeanEstimate, estimate_mean, estimate_mean_difference
from perfkit.check.judge.worsening import Worsening, convert_to_log_scale

_SINGLE = "a single process shows no variation between processes"


def judge_processes(
    quantity: GatedQuantity,
    before: Sequence[float],
    after: Sequence[float],
    threshold: Threshold | None = None,
    *,
    paired: bool,
    alpha: float = ALPHA,
    family: int = 1,
    process_s: float | None = None,
) -> JudgedQuantity:
    """The verdict from one nonnegative figure per process.

    Args:
        before, after: the figures of both sides in the quantity's unit.
        paired: compare pair by pair, since the n-th processes ran together. Else Welch's t for two groups, as for a
            stored baseline.
        alpha: the one-sided level to spend: that of the look (`Plan.alpha`), if there is one.
        family: the number of gated quantities that are estimated, by Bonferroni's inequality.
        process_s: the time of one process pair (or one process), for the estimate of what would decide.

    Figures are compared as logarithms. If one is 0, differences are compared as shares of the mean before. If all
    figures before are 0, there is no relative change, and only an absolute threshold decides.
    """
    if paired and len(before) != len(after):
        raise ValueError(f"{len(before)} figures before and {len(after)} after do not pair up")
    question = Question(
        quantity=quantity,
        threshold=threshold,
        before=median(before) if before else None,
        after=median(after) if after else None,
        samples=min(len(before), len(after)),
        unit="pairs" if paired else "processes per side",
        sample_s=process_s,
    )
    if not before or not after:
        return make_judgment(question, Verdict.NOT_COMPARED, f"no figure {'after' if before else 'before'}")
    if not any(before):
        return _judge_from_zero(question, after, alpha / family)
    worsening = _estimate_worsening(question, before, after, paired)
    if worsening is None:
        unclear = Verdict.PASS if threshold is None else Verdict.INCONCLUSIVE
        return make_judgment(question, unclear, _SINGLE)
    p_worse, p_better = (min(1.0, family * p) for p in (worsening.p_worse, worsening.p_better))
    levels = SignificanceLevels(alpha=alpha, last_alpha=alpha, family=family, p_worse=p_worse, p_better=p_better)
    return judge_quantity(question, worsening, levels)


def _estimate_worsening(
    question: Question, before: Sequence[float], after: Sequence[float], paired: bool
) -> Worsening | None:
    worse = question.quantity.more_is_worse
    logarithmic = all(before) and all(after)
    scale = 1.0 if logarithmic else fmean(before)
    differences, right = ([log(f) if logarithmic else f / scale for f in side] for side in (before, after))
    mean = (
        estimate_mean([b - a for a, b in zip(differences, right, strict=True)])
        if paired
        else estimate_mean_difference(differences, right)
    )
    if mean is None:
        return None
    allowed = None
    if question.threshold is not None:
        allowed = compute_margin(question.threshold, median(before) if logarithmic else scale, more_is_worse=worse)
    return Worsening(
        mean=mean if worse else MeanEstimate(value=-mean.value, error=mean.error, freedom=mean.freedom),
        samples=question.samples,
        more_is_worse=worse,
        margin=convert_to_log_scale(allowed, more_is_worse=worse) if logarithmic else allowed,
        logarithmic=logarithmic,
    )


def _judge_from_zero(question: Question, after: Sequence[float], alpha: float) -> JudgedQuantity:
    """Judge if all figures before are 0: an absolute threshold bounds the mean after."""
    threshold = question.threshold
    if not any(after):
        return make_judgment(question, Verdict.PASS, "0 in every process of both sides", change=0.0)
    if threshold is None or not question.quantity.more_is_worse:
        return make_judgment(question, Verdict.PASS, "0 in every process before, no threshold")
    if threshold.relative is not None:
        reason = f"0 in every process before: {threshold.text} of 0 is undefined"
        return make_judgment(question, Verdict.INCONCLUSIVE, reason, to_decide="an absolute threshold or a limit")
    mean = estimate_mean(after)
    if mean is None:
        return make_judgment(question, Verdict.INCONCLUSIVE, _SINGLE)
    allowed = threshold.limit if threshold.limit is not None else get_allowed_change(threshold, 0.0)
    reach = mean.compute_reach(alpha)
    if mean.value - reach > 0:
        verdict, side = (Verdict.FAIL, "beyond") if mean.value > allowed else (Verdict.WORSE, "within")
        reason = f"0 in every process before, certainly above 0 after; the mean is {side} {threshold.text}"
        return make_judgment(question, verdict, reason)
    if mean.value + reach < allowed:
        return make_judgment(
            question, Verdict.PASS, f"0 in every process before, certainly below {threshold.text} after"
        )
    reason = f"0 in every process before; after, neither 0 nor {threshold.text} can be ruled out"
    return make_judgment(question, Verdict.INCONCLUSIVE, reason, to_decide="more processes")
