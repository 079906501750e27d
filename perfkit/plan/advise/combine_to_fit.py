"""Finds the best combination of helpful techniques, one that fits where any does, with few plans of compiled steps."""

import math
from collections.abc import Sequence

from perfkit.core.errors import UsageError
from perfkit.plan.advise.advice import ExcludedVariant
from perfkit.plan.advise.candidates import Candidate, make_candidate
from perfkit.plan.advise.combine import CombinedTechniques, combine_techniques, is_valid, join_specs
from perfkit.plan.advise.estimates import VariantEstimate, VariantEstimates
from perfkit.plan.advise.judge import Judge, judge_fit
from perfkit.techniques.base.technique import Purpose

_BEGINS = 3  # other combinations to try where the best one does not fit


def combine_to_fit(ordered: Sequence[Candidate], estimates: VariantEstimates, judge: Judge) -> CombinedTechniques:
    """The best combination of candidates, best first; where it does not fit, also begun with those that clash with it,
    smallest first.

    A compiled step takes twenty times as long to plan as an eager one: `torch.compile` joins the best combination of
    all others.
    """
    compiled = [each for each in ordered if _is_compiled(each)]
    eager = [each for each in ordered if not _is_compiled(each)]
    best = combine_techniques(eager, estimates.estimate_variant, judge.is_better)
    clashing = {clash.name for clash in best.clashes}
    begins = [each for each in eager if each.name in clashing]
    for begin in sorted(begins, key=lambda each: _get_needed_bytes(estimates.estimate_variant(each.specs)))[:_BEGINS]:
        if judge_fit(estimates.estimate_variant(best.specs), judge.limit_bytes) is not False:
            break
        best = _choose_better(best, _begin_with(begin, eager, estimates, judge), estimates, judge)
    best = _exchange_savings(best, eager, estimates, judge)
    if not compiled or not _may_fit_compiled(best, compiled, estimates, judge):
        return best
    return _join_compiled(best, compiled, eager, estimates, judge)


def _may_fit_compiled(
    best: CombinedTechniques, compiled: Sequence[Candidate], estimates: VariantEstimates, judge: Judge
) -> bool:
    """False if the combination lacks a larger share of its memory than compiled code alone saves."""
    estimate = estimates.estimate_variant(best.specs)
    lacks, needed = judge.compute_worth(estimate).lacks, _get_needed_bytes(estimate)
    before = _get_needed_bytes(estimates.estimate_variant(()))
    least = min(_get_needed_bytes(estimates.estimate_variant(each.specs)) for each in compiled)
    return lacks == 0 or (needed - lacks) * before >= needed * least


def _exchange_savings(
    best: CombinedTechniques, ordered: Sequence[Candidate], estimates: VariantEstimates, judge: Judge
) -> CombinedTechniques:
    """The combination with another technique for activation memory in place of its own, where that is better.

    The one that gains most by itself is joined first, and is not always the one that gains most beside the others.
    """
    own = next((spec for spec in best.specs if _saves_activations(make_candidate((spec,)))), None)
    if own is None:
        return best
    rest = tuple(spec for spec in best.specs if spec != own)
    for other in ordered:
        if len(other.specs) == 1 and other.specs[0] != own and _saves_activations(other):
            joined = join_specs(rest, other)
            if joined is not None and is_valid(joined):
                best = _choose_better(best, CombinedTechniques(joined, best.clashes), estimates, judge)
    return best


def _saves_activations(candidate: Candidate) -> bool:
    return all(technique.purpose is Purpose.ACTIVATIONS for technique in candidate.techniques)


def _join_compiled(
    best: CombinedTechniques,
    compiled: Sequence[Candidate],
    eager: Sequence[Candidate],
    estimates: VariantEstimates,
    judge: Judge,
) -> CombinedTechniques:
    """The best combination with the first of the compiled candidates that acts beside it, if that is better; without
    the others where the candidate alone is as good, and begun with it where they cannot be joined."""
    joined, clashes = best, list(best.clashes)
    for each in compiled:
        specs = join_specs(best.specs, each)
        if specs is None:
            continue
        try:
            make_candidate(specs)
        except UsageError as clash:
            clashes.append(ExcludedVariant(name=each.name, reason=str(clash)))
            continue
        if _is_planned(estimates.estimate_variant(specs)):
            joined = _choose_better(best, CombinedTechniques(specs, best.clashes), estimates, judge)
            break
    first = compiled[0]
    reached, alone = (estimates.estimate_variant(specs) for specs in (joined.specs, first.specs))
    if joined is not best:
        return joined if judge.is_better(reached, alone) else CombinedTechniques(first.specs, best.clashes)
    if judge.is_better(alone, reached):
        return _choose_better(best, _begin_with(first, eager, estimates, judge), estimates, judge)
    return CombinedTechniques(best.specs, tuple(clashes))


def _begin_with(
    begin: Candidate, ordered: Sequence[Candidate], estimates: VariantEstimates, judge: Judge
) -> CombinedTechniques:
    reordered = [begin, *(each for each in ordered if each != begin)]
    return combine_techniques(reordered, estimates.estimate_variant, judge.is_better)


def _choose_better(
    best: CombinedTechniques, other: CombinedTechniques, estimates: VariantEstimates, judge: Judge
) -> CombinedTechniques:
    before, after = (estimates.estimate_variant(each.specs) for each in (best, other))
    return other if judge.is_better(after, before) else best


def _is_compiled(candidate: Candidate) -> bool:
    return any(technique.purpose is Purpose.COMPILATION and technique.compiles() for technique in candidate.techniques)


def _is_planned(estimate: VariantEstimate) -> bool:
    return estimate.needed is not None or estimate.saving is not None


def _get_needed_bytes(estimate: VariantEstimate) -> float:
    return math.inf if estimate.needed is None else estimate.needed.value
