"""Ranks what to try next on top of a measured variant: by simulation of its recorded step, and by plans where memory
decides."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.plan import Interval
from perfkit.core.spec import TechniqueSpec, format_variant_label
from perfkit.core.units import format_bytes, format_percent
from perfkit.measure.redundant_size import read_batch_size
from perfkit.plan.advise.advice import LossRisk
from perfkit.plan.advise.advise import LARGER_BATCHES
from perfkit.plan.advise.candidates import Candidate, judge_loss_risk, select_candidates
from perfkit.plan.advise.subject import AdviceSubject, make_run_subject
from perfkit.plan.advise.time_saving import estimate_time_saved
from perfkit.plan.variants.plan import PlanOne, make_planner
from perfkit.plan.variants.verdict import check_fit
from perfkit.techniques.base.technique import LOSSLESS, Purpose, explain_inability
from perfkit.techniques.compose import are_compatible
from perfkit.tune.model.tune_request import NOTABLE_SHARE, Techniques, TuneRequest
from perfkit.tune.model.tune_result import AllowedLosses, UntriedVariant
from perfkit.tune.search.leading_finding import find_leading_finding, get_technique_name
from perfkit.tune.search.settings import list_settings


class RankedCandidate(NamedTuple):
    """A variant to try. `low_s` to `high_s` is its simulated saving in a step of its base, None if unknown;
    `needed_bytes` its planned memory, None if not planned. `saves_memory` is True if anything new is for that,
    `is_setting` if only parameters of techniques of its base are new, and `is_led` if a technique is new that answers
    the leading finding of its base. `is_joined`: it joins several improvements of one stage."""

    specs: Techniques
    low_s: float | None = None
    high_s: float | None = None
    needed_bytes: Interval | None = None
    saves_memory: bool = False
    is_setting: bool = False
    is_led: bool = False
    is_joined: bool = False

    @property
    def name(self) -> str:
        return format_variant_label(self.specs)


class Ranking(NamedTuple):
    """Candidates, the most promising first, what is not worth a run, and the finding of the base's trace with the
    largest gain, None without one."""

    candidates: tuple[RankedCandidate, ...]
    untried: tuple[UntriedVariant, ...]
    leading: Finding | None = None


def rank_candidates(folder: Path, request: TuneRequest, base: Techniques, base_name: str) -> Ranking:
    """Rank the offered techniques on top of the variant `base` of the suite in `folder`.

    A technique that `base` has with other parameters is replaced; other settings of its techniques are offered too.
    Those whose losses are not allowed, that cannot act
    here, that do not fit by a plan, or whose simulated saving is below 1 % are untried. Where the effect on the time is
    unknown, candidates come last: only a measurement can tell.
    """
    subject = make_run_subject(folder, variant=base_name)
    size = read_batch_size(request.bench.workload, request.bench.device)
    offered = (
        *_extend_base(base, (*request.offered, *_list_larger_batches(request, size))),
        *list_settings(base, request.chosen, torch.device(request.bench.device)),
    )
    selected, excluded = select_candidates(offered, subject, "cost", size)
    leading = None if subject.step is None else find_leading_finding(subject.step)
    untried = [UntriedVariant(variant=each.name, reason=each.reason) for each in excluded]
    plan = _make_plan(subject, request)
    before = None if plan is None else plan(base).needed_bytes
    ranked: list[RankedCandidate] = []
    for candidate in selected:
        if candidate.specs == base:
            continue
        reason = _explain_exclusion(candidate, request)
        if not reason:
            found = _estimate_candidate(candidate, subject, base, plan, leading)
            reason = _explain_pruning(found, request, before, None if subject.step is None else subject.step.step_s)
            if not reason:
                ranked.append(found)
        if reason:
            untried.append(UntriedVariant(variant=candidate.name, reason=reason))
    ordered = sorted(ranked, key=lambda each: _compute_order(each, request))
    return Ranking(tuple(ordered), tuple(untried), leading)


def _list_larger_batches(request: TuneRequest, size: int | None) -> tuple[Techniques, ...]:
    """Batches of the workload's `size` times a few, where batches are compared and `-t` names no techniques."""
    if request.objective != "cost" or request.chosen or size is None:
        return ()
    return tuple((TechniqueSpec(name="batch", params={"size": size * times}),) for times in LARGER_BATCHES)


def _explain_exclusion(candidate: Candidate, request: TuneRequest) -> str:
    """The reason that the request or the device excludes a candidate, whatever it saves; "" if neither does."""
    if request.objective != "cost" and any(spec.name == "batch" for spec in candidate.specs):
        return "another batch size is other work: --objective cost compares times per sample"
    device = torch.device(request.bench.device)
    unable = next(filter(None, (explain_inability(each, device) for each in candidate.techniques)), "")
    if unable:
        return unable
    risk = judge_loss_risk(candidate.techniques)
    return "" if is_allowed(risk, request.allow) else f"--allow {request.allow} excludes it: {risk.basis}"


def is_allowed(risk: LossRisk, allow: AllowedLosses) -> bool:
    """True if a technique's effect on the loss is allowed."""
    if allow == "any":
        return True
    return risk.comparable and (allow == "tolerance" or (risk.tolerance or 0.0) <= (LOSSLESS.relative or 0.0))


def _extend_base(base: Techniques, offered: Iterable[Techniques]) -> Iterator[Techniques]:
    """The offered techniques beside those of `base`, in place of those with the same names."""
    for specs in offered:
        names = {spec.name for spec in specs}
        extended = (*(spec for spec in base if spec.name not in names), *specs)
        if are_compatible(extended):
            yield extended


def _make_plan(subject: AdviceSubject, request: TuneRequest) -> PlanOne | None:
    """A planner where memory is asked for, None elsewhere: a plan takes seconds to minutes."""
    if subject.request is None or subject.target is None:
        return None
    if request.objective != "memory" and request.limit_bytes is None:
        return None
    return make_planner(subject.request, subject.target, lambda _: None)


def _estimate_candidate(
    candidate: Candidate, subject: AdviceSubject, base: Techniques, plan: PlanOne | None, leading: Finding | None
) -> RankedCandidate:
    """Simulate what is new in the recorded step; nothing is known where a parameter of `base` changes."""
    low_s = high_s = None
    names = {spec.name for spec in candidate.specs if spec not in base}
    added = [each for each in candidate.techniques if each.name in names]
    if subject.step is not None and not names & {spec.name for spec in base}:
        saving = estimate_time_saved(subject.step, added).saving
        if saving is not None:
            low_s, high_s = saving.low, saving.high
    return RankedCandidate(
        candidate.specs,
        low_s,
        high_s,
        needed_bytes=None if plan is None else plan(candidate.specs).needed_bytes,
        saves_memory=any(each.purpose is Purpose.ACTIVATIONS for each in added),
        is_setting=names <= {spec.name for spec in base},
        is_led=leading is not None and bool(names & set(map(get_technique_name, leading.techniques))),
    )


def _explain_pruning(
    candidate: RankedCandidate, request: TuneRequest, before: Interval | None, step_s: float | None
) -> str:
    """The reason that an estimate makes a run pointless; "" if it is worth one."""
    needed = candidate.needed_bytes
    if request.limit_bytes is not None and needed is not None and check_fit(needed, request.limit_bytes) is False:
        return f"needs {format_bytes(needed.low)} at least, by its plan"
    if request.objective == "memory":
        if before is None or needed is None or needed.low < (1 - NOTABLE_SHARE) * before.value:
            return ""
        return "saves no memory, by its plan"
    if candidate.high_s is None or step_s is None or candidate.high_s >= NOTABLE_SHARE * step_s:
        return ""
    return f"simulated saving at most {format_percent(max(candidate.high_s / step_s, 0.0))} of the step"


def _compute_order(candidate: RankedCandidate, request: TuneRequest) -> tuple[int, float]:
    """Sort key, the most promising first.

    Of unknown effects on the time, those come first that answer the leading finding, then other settings of what was
    accepted; those of what saves memory come last, even beside what answers the finding, which is offered alone, too.
    """
    if request.objective == "memory":
        needed = candidate.needed_bytes
        return needed is None, 0.0 if needed is None else needed.value
    if candidate.low_s is None or candidate.high_s is None:
        if candidate.is_setting:
            return 2, 0.0
        return 4 if candidate.saves_memory else 1 if candidate.is_led else 3, 0.0
    return 0, -(candidate.low_s + candidate.high_s)
