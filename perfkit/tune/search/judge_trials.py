"""Judges measured variants: which are proven improvements on the variant they extend, and why others are not."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.suite import Variant
from perfkit.core.record import RunStatus, get_value
from perfkit.core.spec import BASELINE
from perfkit.tune.model.tune_request import NOTABLE_SHARE, TuneRequest
from perfkit.tune.model.tune_result import Objective, Trial, TrialOutcome
from perfkit.tune.search.rank_candidates import RankedCandidate


class GainInterval(NamedTuple):
    """A ratio of step times with its 95 % interval; the ends are None where too few processes were measured."""

    ratio: float
    low: float | None
    high: float | None


def judge_stage(
    stage: int,
    base: str,
    candidates: Sequence[RankedCandidate],
    variants: Mapping[str, Variant],
    request: TuneRequest,
) -> tuple[Trial, ...]:
    """Judge the candidates of one stage by their measurements; the best improvement is `accepted`.

    `variants` are the suite's by their techniques; `base` is the variant that they extend, "" for the baseline.
    """
    reference = variants[base or BASELINE]
    trials = [
        _judge_trial(stage, base, each, variants[each.name], reference, request)
        for each in candidates
        if each.name in variants
    ]
    improving = [trial for trial in trials if trial.outcome == "improves"]
    if not improving:
        return tuple(trials)
    best = min(improving, key=lambda trial: get_objective(trial, request.objective))
    return tuple(replace(trial, outcome="accepted") if trial is best else trial for trial in trials)


def compute_gain(ours: Variant, base: Variant) -> GainInterval | None:
    """The step time of a variant over that of the variant it extends, both measured against the baseline.

    The two ratios are measured in different rounds: the half-widths of their logs add in quadrature. None where it was
    not compared.
    """
    if ours.difference is None:
        return None
    if base.is_baseline:
        return GainInterval(ours.difference.ratio, ours.difference.low, ours.difference.high)
    if base.difference is None:
        return None
    mine, theirs = ours.difference, base.difference
    center = math.log(mine.ratio / theirs.ratio)
    if mine.low is None or mine.high is None or theirs.low is None or theirs.high is None:
        return GainInterval(math.exp(center), None, None)
    below = math.hypot(math.log(mine.ratio / mine.low), math.log(theirs.high / theirs.ratio))
    above = math.hypot(math.log(mine.high / mine.ratio), math.log(theirs.ratio / theirs.low))
    return GainInterval(math.exp(center), math.exp(center - below), math.exp(center + above))


def _judge_trial(
    stage: int, base: str, candidate: RankedCandidate, variant: Variant, reference: Variant, request: TuneRequest
) -> Trial:
    gain = compute_gain(variant, reference)
    outcome, reason = _find_flaw(variant, request) or _judge_gain(variant, reference, gain, request)
    difference = variant.difference
    return Trial(
        stage=stage,
        variant=candidate.name,
        base=base,
        outcome=outcome,
        reason=reason,
        ratio=None if difference is None else difference.ratio,
        low=None if difference is None else difference.low,
        high=None if difference is None else difference.high,
        gain_ratio=None if gain is None else gain.ratio,
        gain_low=None if gain is None else gain.low,
        gain_high=None if gain is None else gain.high,
        peak_bytes=get_value(variant.peak_allocated),
        pairs=0 if difference is None else difference.pairs,
        expected_low_s=candidate.low_s,
        expected_high_s=candidate.high_s,
    )


def _find_flaw(variant: Variant, request: TuneRequest) -> tuple[TrialOutcome, str] | None:
    """The reason that a variant does not count, whatever its speed; None if it does."""
    if variant.status == RunStatus.SKIPPED:
        return "skipped", variant.reason
    if variant.status != RunStatus.OK:
        return "failed", variant.reason
    if variant.emulation_reason:
        return "not applied", variant.emulation_reason
    if variant.active is False:
        return "not applied", next((claim.evidence for claim in variant.claims if not claim.holds), "")
    verdict = variant.parity.verdict
    if verdict in ("differs", "unknown") or (verdict == "not comparable" and request.allow != "any"):
        return "losses differ", variant.parity.basis
    peak = get_value(variant.peak_allocated)
    if request.limit_bytes is not None and (peak is None or peak > request.limit_bytes):
        return "over memory limit", "peak unknown" if peak is None else ""
    return None


def _judge_gain(
    variant: Variant, reference: Variant, gain: GainInterval | None, request: TuneRequest
) -> tuple[TrialOutcome, str]:
    if request.objective == "memory":
        ours, theirs = get_value(variant.peak_allocated), get_value(reference.peak_allocated)
        if ours is None or theirs is None:
            return "undecided", "peak unknown"
        return ("improves" if ours < (1 - NOTABLE_SHARE) * theirs else "no gain"), ""
    if gain is None or gain.low is None or gain.high is None:
        return "undecided", "too few processes were measured"
    if gain.high < 1.0:
        return ("improves" if gain.ratio < 1 - NOTABLE_SHARE else "no gain"), ""
    if gain.low > 1.0:
        return "slower", ""
    return ("no gain" if gain.low > 1 - NOTABLE_SHARE else "undecided"), ""


def get_objective(trial: Trial, objective: Objective) -> float:
    """The figure of an improvement to minimize: its peak, or its step time over the baseline's."""
    figure = trial.peak_bytes if objective == "memory" else trial.ratio
    assert figure is not None, "an improvement was measured"
    return figure
