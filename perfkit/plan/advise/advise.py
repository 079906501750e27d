"""Ranks techniques for one step, and finds the best combination."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

import perfkit
from perfkit.core.errors import UsageError
from perfkit.core.note import Note, make_note
from perfkit.core.spec import TechniqueSpec, format_variant_label
from perfkit.measure.redundant_size import read_batch_size
from perfkit.plan.advise.advice import Advice, AdviceOption, Allowed, Goal
from perfkit.plan.advise.candidates import Candidate, Techniques, judge_loss_risk, make_candidate, select_candidates
from perfkit.plan.advise.combine_to_fit import combine_to_fit
from perfkit.plan.advise.estimates import VariantEstimate, VariantEstimates
from perfkit.plan.advise.judge import Judge, Worth, judge_fit
from perfkit.plan.advise.subject import AdviceSubject
from perfkit.plan.variants.block_estimates import find_estimated_blocks, make_estimating_planner
from perfkit.plan.variants.plan import PlanOne
from perfkit.plan.variants.verdict import check_fit, format_verdict
from perfkit.store.bench_command import format_request_command

# Minimum saving of the step or the peak to join a technique: less is not worth its risk.
_NOTABLE = 0.01
LARGER_BATCHES = (2, 4)  # times the batch size, if batches are compared


def advise(
    subject: AdviceSubject,
    variants: Iterable[Techniques],
    goal: Goal,
    progress: Callable[[str], None] = lambda _: None,
    *,
    allow: Allowed = "comparable",
    command: str = "perfkit advise",
) -> Advice:
    """Rank variants by a goal, best first, and find the best combination.

    Only variants with losses comparable with the baseline's are combined, unless `allow` is `any`: others train
    something else. Where nothing comparable fits, a note has the best combination of any, and `command` with
    `--allow any`.

    Raises:
        UsageError: the goal needs memory figures or a limit that the subject lacks.
    """
    request, target = subject.request, subject.target
    size = None if request is None else read_batch_size(request.workload, subject.place.device)
    plan = None if request is None or target is None else make_estimating_planner(request, target, progress)
    limit = None if target is None else target.limit_bytes
    if goal in ("memory", "batch") and plan is None:
        raise UsageError(f"--goal {goal} needs a plan, but {subject.notes[-1]}")
    if goal == "batch" and (limit is None or size is None):
        raise UsageError(
            "--goal batch needs a memory limit and a batch size: --memory 24GiB", id="usage.missing_option"
        )
    requested_labels = list(variants)
    if goal == "cost" and size is not None:
        requested_labels += [
            batch for times in LARGER_BATCHES if (batch := _make_batch_technique(size * times)) not in requested_labels
        ]
    candidates, left_out = select_candidates(requested_labels, subject, goal, size)
    estimates = VariantEstimates(subject.step, plan, size, limit)
    before = estimates.estimate_variant(())
    step_s = _get_step_s(subject, plan)
    notes = (*subject.notes, *_list_estimate_notes(subject))
    if step_s is None and plan is not None and goal in ("time", "cost"):
        as_it_is = plan(())
        reason = (as_it_is.step_reason or as_it_is.reason).rstrip(".")
        text = f"step time unknown: {reason}. Run perfkit advise on a suite, or use --goal memory"
        notes = (*notes, make_note("advice.no_step_time", text))
    judge = _make_judge(goal, limit, before, step_s)
    ranked = sorted(candidates, key=lambda each: judge.order(estimates.estimate_variant(each.specs)))
    is_short = judge_fit(before, limit) is False
    helpful = [
        each
        for each in ranked
        if judge.is_better(estimates.estimate_variant(each.specs), before)
        or (is_short and _saves_memory(each) and estimates.estimate_variant(each.specs).needed is not None)
    ]
    comparable = [each for each in helpful if judge_loss_risk(each.techniques).comparable]
    joined = combine_to_fit(helpful if allow == "any" else comparable, estimates, judge)
    of_any: Techniques = ()
    if allow == "comparable" and judge_fit(estimates.estimate_variant(joined.specs), limit) is False:
        names = [each.name for each in ranked if not judge_loss_risk(each.techniques).comparable]
        if names:
            whole = combine_to_fit(helpful, estimates, judge)
            notes = (*notes, _note_changed_results(names, whole.specs, estimates, limit, command))
            of_any = whole.specs if judge_fit(estimates.estimate_variant(whole.specs), limit) is not False else ()

    def option(variant: Candidate) -> AdviceOption:
        made = _make_option(variant, estimates.estimate_variant(variant.specs), before, step_s, limit)
        return made if request is None else replace(made, verify=format_request_command(request, made.name))

    return Advice(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        name=subject.name,
        kind=subject.kind,
        device=subject.device,
        goal=goal,
        limit_bytes=limit,
        step_s=step_s,
        peak_bytes=before.needed,
        options=tuple(map(option, ranked)),
        best=option(make_candidate(joined.specs)) if joined.specs else None,
        fitting=option(make_candidate(of_any)) if of_any else None,
        clashes=joined.clashes,
        excluded=left_out,
        notes=notes,
        bench_command=subject.bench_command,
    )


def _list_estimate_notes(subject: AdviceSubject) -> tuple[Note, ...]:
    """That figures are estimates, where the workload has many blocks."""
    request, target = subject.request, subject.target
    blocks = None if request is None or target is None else find_estimated_blocks(request.workload, target.kind)
    if blocks is None:
        return ()
    text = (
        f"figures are estimated from plans with few of the model's {blocks} blocks; perfkit plan plans a variant whole"
    )
    return (make_note("advice.few_blocks", text, blocks=blocks),)


def _saves_memory(candidate: Candidate) -> bool:
    """True if its techniques save memory: more of it with others, whose peak may be elsewhere."""
    return all(technique.planning.savings for technique in candidate.techniques)


def _note_changed_results(
    names: list[str], specs: Techniques, estimates: VariantEstimates, limit: float | None, command: str
) -> Note:
    """The note of what fits with techniques that change results, and the command that joins them."""
    combined, needed = format_variant_label(specs), estimates.estimate_variant(specs).needed
    fits = judge_fit(estimates.estimate_variant(specs), limit)
    if needed is None or limit is None or fits is False:
        changes = not judge_loss_risk(make_candidate(specs).techniques).comparable if specs else False
        closest = f", not even {combined}{', which changes results' if changes else ''}" if specs else ""
        text = f"nothing fits{closest}"
    else:
        text = (
            f"nothing with comparable losses fits; {combined} changes results and {format_verdict(needed, limit)}: "
            f"{command} --allow any"
        )
    return make_note(
        "advice.changes_results",
        text,
        techniques=names,
        combination=combined,
        fits=fits,
        high_bytes=None if needed is None else needed.high,
    )


def _make_batch_technique(size: int) -> Techniques:
    return (TechniqueSpec(name="batch", params={"size": size}),)


def _get_step_s(subject: AdviceSubject, plan: PlanOne | None) -> float | None:
    if subject.step is not None:
        return subject.step.step_s
    planned = None if plan is None else plan(()).step_s
    return None if planned is None else planned.total.value


def _make_judge(goal: Goal, limit: float | None, before: VariantEstimate, step_s: float | None) -> Judge:
    held = 0.0 if before.needed is None else before.needed.value
    of = {"memory": held, "batch": before.largest_batch or 0.0}.get(goal, step_s or 0.0)
    lacking = held if limit is None else min(held, limit)  # a step may need a hundred times what there is
    return Judge(goal, limit, Worth(_NOTABLE * lacking, _NOTABLE * of))


def _make_option(
    variant: Candidate, estimate: VariantEstimate, before: VariantEstimate, step_s: float | None, limit: float | None
) -> AdviceOption:
    held = estimate.needed
    share = None if estimate.saving is None or not step_s else estimate.saving.value / step_s
    return AdviceOption(
        name=variant.name,
        saving_s=estimate.saving,
        saving_share=share,
        peak_bytes=held,
        saving_bytes=None if held is None or before.needed is None else before.needed.value - held.value,
        largest_batch=estimate.largest_batch,
        fits=None if held is None or limit is None else check_fit(held, limit),
        reasons=estimate.why,
        assumptions=estimate.assumes,
        risk=judge_loss_risk(variant.techniques),
        unknown_reasons=estimate.not_known,
    )
