"""Judges measured variants: which are proven improvements on the variant they extend, and why others are not."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from perfkit.analysis.model.suite import Variant
from perfkit.core.record.quantity import get_value
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import BASELINE
from perfkit.tune.model.tune_request import NOTABLE_SHARE, TuneRequest
from perfkit.tune.model.tune_result import Objective, Trial, TrialOutcome
from perfkit.tune.search.paired_gains import NO_GAINS, GainInterval, compute_gain
from perfkit.tune.search.rank_candidates import RankedCandidate


def judge_stage(
    stage: int,
    base: str,
    candidates: Sequence[RankedCandidate],
    variants: Mapping[str, Variant],
    request: TuneRequest,
    gains: Mapping[str, GainInterval] = NO_GAINS,
) -> tuple[Trial, ...]:
    """Judge the candidates of one stage by their measurements; the best improvement is `accepted`.

    `variants` are the suite's by their techniques; `base` is the variant that they extend, "" for the baseline. `gains`
    over that are measured in the same rounds, by the variants' names; others are computed from those over the baseline.
    """
    reference = variants[base or BASELINE]
    trials = [
        _judge_trial(stage, base, each, variants[each.name], reference, request, gains.get(variants[each.name].name))
        for each in candidates
        if each.name in variants
    ]
    improving = [trial for trial in trials if trial.outcome == "improves"]
    if not improving:
        return tuple(trials)
    best = _choose_best(improving, request.objective)
    return tuple(replace(trial, outcome="accepted") if trial is best else trial for trial in trials)


def _choose_best(improving: Sequence[Trial], objective: Objective) -> Trial:
    """The best trial; of those that are less than 1 % worse, the one with the fewest techniques."""
    limit = (1 + NOTABLE_SHARE) * min(get_objective(trial, objective) for trial in improving)
    near = [trial for trial in improving if get_objective(trial, objective) <= limit]
    return min(near, key=lambda trial: (trial.variant.count("+"), get_objective(trial, objective)))


def _judge_trial(
    stage: int,
    base: str,
    candidate: RankedCandidate,
    variant: Variant,
    reference: Variant,
    request: TuneRequest,
    paired: GainInterval | None,
) -> Trial:
    gain = paired if paired is not None and base else compute_gain(variant, reference)
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
