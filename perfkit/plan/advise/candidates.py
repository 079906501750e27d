"""Selects candidate variants, with reasons for excluded ones."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

from perfkit.core.spec import TechniqueSpec, format_variant_label
from perfkit.measure.bench import compute_needed_ranks, find_refusal
from perfkit.measure.schedule import explain_unbuildable
from perfkit.plan.advise.advice import ExcludedVariant, Goal, LossRisk
from perfkit.plan.advise.subject import AdviceSubject
from perfkit.plan.variants.plan import schedule_run
from perfkit.techniques.base.rank_sharing import explain_lacking_ranks
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.compose import are_compatible, compose_techniques, find_open_technique

Techniques = tuple[TechniqueSpec, ...]

# How to add ranks, by kind of subject.
_MORE_RANKS = {
    "workload": "--world-size {}",
    "run": "run perfkit advise on its workload with --world-size {}",
    "trace": "advise the workload that was traced, such as train.py:build, with --world-size {}",
}


class Candidate(NamedTuple):
    """A technique, or several: as named, and with typed parameters in the order in which they are applied."""

    specs: Techniques
    techniques: tuple[Technique, ...]

    @property
    def name(self) -> str:
        return format_variant_label(self.specs)


def make_candidate(specs: Techniques) -> Candidate:
    """Make a candidate. Raises `UsageError` for incompatible techniques."""
    return Candidate(specs, compose_techniques(specs))


def select_candidates(
    variants: Iterable[Techniques], subject: AdviceSubject, goal: Goal, batch_size: int | None
) -> tuple[tuple[Candidate, ...], tuple[ExcludedVariant, ...]]:
    """The variants that can act on a subject, and excluded ones with reasons.

    One that can act in another precision only, as fused attention in 16 bits on a GPU, is a variant with each of the
    given precisions. `batch_size` is that of the subject's step, None if unknown.
    """
    candidates: list[Candidate] = []
    refused: list[tuple[Candidate, str]] = []
    left_out: list[ExcludedVariant] = []
    for specs in variants:
        found = make_candidate(specs)
        if not found.techniques:
            continue
        other_work = _explain_other_work(found, goal, batch_size)
        if other_work:
            left_out.append(ExcludedVariant(name=found.name, reason=other_work))
        elif reason := _explain_refusal(found, subject):
            refused.append((found, reason))
        else:
            candidates.append(found)
    precisions = [each for each in candidates if _changes_precision(each, subject.place.dtype)]
    for found, reason in refused:
        lifted = list(_join_precisions(found, precisions, subject))
        candidates += lifted
        if not lifted:
            left_out.append(ExcludedVariant(name=found.name, reason=reason))
    return tuple({each.name: each for each in candidates}.values()), tuple(left_out)


def _changes_precision(candidate: Candidate, dtype: str) -> bool:
    return len(candidate.techniques) == 1 and candidate.techniques[0].computes_in(dtype) != dtype


def _join_precisions(
    candidate: Candidate, precisions: Iterable[Candidate], subject: AdviceSubject
) -> Iterator[Candidate]:
    """The candidate with the first variant of each technique of precision that lets it act."""
    seen: set[str] = set()
    for precision in precisions:
        name = precision.techniques[0].name
        specs = (*precision.specs, *candidate.specs)
        if name in seen or not are_compatible(specs):
            continue
        joined = make_candidate(specs)
        if not _explain_refusal(joined, subject):
            seen.add(name)
            yield joined


def _explain_other_work(candidate: Candidate, goal: Goal, batch_size: int | None) -> str:
    """Reason that its step is not comparable with the subject's; empty if comparable."""
    names = {each.name for each in candidate.techniques}
    if "seq" in names:
        return "a different sequence length is different work"
    if "batch" not in names:
        return ""
    if goal != "cost":
        return "batch sizes are compared per sample: use --goal cost"
    wanting = find_open_technique(candidate.specs)
    if wanting is not None:
        return wanting.plannable().reason
    return "" if batch_size else "samples per step unknown"


def _explain_refusal(candidate: Candidate, subject: AdviceSubject) -> str:
    """Reason that it cannot act on the step's device; empty if it can."""
    place = subject.place
    lacking = explain_lacking_ranks(compute_needed_ranks(candidate.specs), place.world_size, _MORE_RANKS[subject.kind])
    if lacking:
        return lacking
    emulated = (each.emulated(torch.device(place.device)) for each in candidate.techniques)
    return _explain_skip(candidate, subject) or next(filter(None, emulated), "")


def _explain_skip(candidate: Candidate, subject: AdviceSubject) -> str:
    """Reason that it is not run or, without a recording to simulate it in, not planned."""
    place, request = subject.place, subject.request
    if request is not None and subject.target is not None and subject.step is None:
        return schedule_run(request, candidate.specs, subject.target).skip
    refused = find_refusal(candidate.specs, place.device, place.dtype).text
    return refused or ("" if request is None else explain_unbuildable(request, candidate.specs, place.world_size))


def judge_loss_risk(techniques: Iterable[Technique]) -> LossRisk:
    """The loss risk of techniques together: the loosest tolerance."""
    rules = [technique.parity() for technique in techniques]
    free = [rule.basis for rule in rules if rule.relative is None]
    if free:
        return LossRisk(comparable=False, tolerance=None, basis="; ".join(dict.fromkeys(free)))
    loosest = max(rules, key=lambda rule: rule.relative or 0.0)
    return LossRisk(comparable=True, tolerance=loosest.relative, basis=loosest.basis)
