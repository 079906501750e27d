"""Judges every quantity of a variant from the figures of both sides and the process pairs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from msgspec.structs import replace

from perfkit.analysis.compare.environments import EnvironmentDifference, explain_incomparable_times
from perfkit.check.judge.check_figures import RunFigures
from perfkit.check.judge.check_thresholds import Threshold
from perfkit.check.judge.exact_counts import judge_exact_quantities, make_not_compared
from perfkit.check.judge.looks import LookPlan
from perfkit.check.judge.paired_processes import judge_processes
from perfkit.check.judge.process_pairs import Gate, judge_pairs
from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity, JudgingMethod
from perfkit.check.judge.result import CheckedVariant, JudgedQuantity, Verdict, is_failure
from perfkit.store.pairs import Pairs

Thresholds = Mapping[str, Threshold | None]

_STEP_TIME = "step_time"
_DEFAULTS = {quantity.name: quantity.default for quantity in QUANTITIES}

# Worst first: the overall verdict of a check.
_SEVERITY = (
    Verdict.FAIL,
    Verdict.INCONCLUSIVE,
    Verdict.WORSE,
    Verdict.IMPROVED,
    Verdict.PASS,
    Verdict.NOT_COMPARED,
)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The measurements of one variant.

    `pairs` is None if none were requested: then times of the sides' processes are compared, if comparable.
    `interleaved`: the n-th processes of both sides ran together. `timed` False: only exact quantities are judged.
    """

    before: RunFigures
    after: RunFigures
    differs: tuple[EnvironmentDifference, ...] = ()
    pairs: Pairs | None = None
    interleaved: bool = False
    timed: bool = True


def judge_variant(
    evidence: Evidence, thresholds: Thresholds, plan: LookPlan | None = None
) -> tuple[JudgedQuantity, ...]:
    """All quantities, gated ones first, in the order of the table.

    `plan` is the plan of looks, required with pairs.
    """
    exact = judge_exact_quantities(evidence.before, evidence.after, thresholds, evidence.differs)
    timed = _judge_times(evidence, thresholds, plan) if evidence.timed else ()
    order = {quantity.name: index for index, quantity in enumerate(QUANTITIES)}
    judged = map(_drop_idle_gate, (*exact, *timed))
    return tuple(sorted(judged, key=lambda judgement: (judgement.threshold is None, order[judgement.quantity])))


def list_gates(before: RunFigures, after: RunFigures, thresholds: Thresholds) -> tuple[Gate, ...]:
    """The quantities of a variant that process pairs measure."""
    gates = []
    for quantity in _select_quantities(JudgingMethod.PAIRED):
        per_step = _compute_work_per_step(quantity, before, after)
        if quantity.more_is_worse or per_step is not None:
            gates.append(Gate(quantity=quantity, threshold=thresholds.get(quantity.name), per_step=per_step))
    return tuple(gates)


def count_family(before: RunFigures, after: RunFigures, thresholds: Thresholds, *, paired: bool) -> int:
    """Number of estimated gated quantities; `paired`: step times come from process pairs."""
    steps = [gate.quantity for gate in list_gates(before, after, thresholds)] if paired else []
    alone = _select_process_quantities(before, after, paired=paired)
    return max(1, sum(thresholds.get(quantity.name) is not None for quantity in (*steps, *alone)))


def combine_verdicts(judged: Iterable[JudgedQuantity], fail_on: Verdict = Verdict.FAIL) -> Verdict:
    """The verdict on all gated quantities together; `not compared` if none could be judged.

    Failures, as defined by `fail_on`, take precedence over inconclusive verdicts.

    A gated quantity known for one side only is inconclusive, since a regression may be the cause. Quantities unknown on
    both sides or not comparable do not affect the overall verdict.
    """
    verdicts = {_get_effective_verdict(judgement) for judgement in judged if judgement.threshold is not None}
    severity = sorted(_SEVERITY, key=lambda verdict: not is_failure(verdict, fail_on))
    return next((verdict for verdict in severity if verdict in verdicts), Verdict.NOT_COMPARED)


def _get_effective_verdict(judged: JudgedQuantity) -> Verdict:
    one_side = (judged.before is None) != (judged.after is None)
    return Verdict.INCONCLUSIVE if judged.verdict is Verdict.NOT_COMPARED and one_side else judged.verdict


def combine_variant_verdicts(variants: Iterable[CheckedVariant], fail_on: Verdict = Verdict.FAIL) -> Verdict:
    """The verdict on a whole check."""
    return combine_verdicts((judgement for variant in variants for judgement in variant.quantities), fail_on)


def _drop_idle_gate(judged: JudgedQuantity) -> JudgedQuantity:
    """Gate a quantity missing on both sides only if requested: a CPU reserves no memory."""
    nowhere = judged.verdict is Verdict.NOT_COMPARED and judged.before is None and judged.after is None
    asked = judged.threshold is not None and judged.threshold.text != _DEFAULTS[judged.quantity]
    return replace(judged, threshold=None) if nowhere and not asked else judged


def _judge_times(evidence: Evidence, thresholds: Thresholds, plan: LookPlan | None) -> tuple[JudgedQuantity, ...]:
    refused = explain_incomparable_times(evidence.differs)
    if refused:
        quantities = (*_select_quantities(JudgingMethod.PAIRED), *_select_quantities(JudgingMethod.PROCESSES))
        return tuple(
            make_not_compared(
                quantity,
                refused,
                before=_compute_median(quantity, evidence.before),
                after=_compute_median(quantity, evidence.after),
                threshold=thresholds.get(quantity.name),
            )
            for quantity in quantities
        )
    paired = evidence.pairs is not None
    family = count_family(evidence.before, evidence.after, thresholds, paired=paired)
    judged = [
        judge_processes(
            quantity,
            evidence.before.processes[quantity.name],
            evidence.after.processes[quantity.name],
            thresholds.get(quantity.name),
            paired=evidence.interleaved,
            family=family,
        )
        for quantity in _select_process_quantities(evidence.before, evidence.after, paired=paired)
    ]
    if evidence.pairs is not None and plan is not None:
        gates = list_gates(evidence.before, evidence.after, thresholds)
        judged += judge_pairs(evidence.pairs.pairs, evidence.pairs.pairing, gates, plan, family=family)
    there = {judgement.quantity for judgement in judged}
    lacking = [
        quantity
        for quantity in (*_select_quantities(JudgingMethod.PAIRED), *_select_quantities(JudgingMethod.PROCESSES))
        if quantity.name not in there
    ]
    return (*judged, *(_make_lacking(quantity, evidence, thresholds) for quantity in lacking))


def _make_lacking(quantity: GatedQuantity, evidence: Evidence, thresholds: Thresholds) -> JudgedQuantity:
    sides = (("before", evidence.before), ("now", evidence.after))
    reasons = [f"{name}: {side.missing[quantity.name]}" for name, side in sides if quantity.name in side.missing]
    return make_not_compared(
        quantity,
        "; ".join(dict.fromkeys(reasons)) or "not measured",
        before=_compute_median(quantity, evidence.before),
        after=_compute_median(quantity, evidence.after),
        threshold=thresholds.get(quantity.name),
    )


def _select_quantities(judging: JudgingMethod) -> tuple[GatedQuantity, ...]:
    return tuple(quantity for quantity in QUANTITIES if quantity.judging is judging)


def _select_process_quantities(before: RunFigures, after: RunFigures, *, paired: bool) -> tuple[GatedQuantity, ...]:
    """Quantities judged from one figure per process."""
    candidates = (
        _select_quantities(JudgingMethod.PROCESSES)
        if paired
        else (*_select_quantities(JudgingMethod.PAIRED), *_select_quantities(JudgingMethod.PROCESSES))
    )
    return tuple(
        quantity
        for quantity in candidates
        if before.processes.get(quantity.name) and after.processes.get(quantity.name)
    )


def _compute_median(quantity: GatedQuantity, figures: RunFigures) -> float | None:
    values = figures.processes.get(quantity.name)
    return median(values) if values else None


def _compute_work_per_step(
    quantity: GatedQuantity, before: RunFigures, after: RunFigures
) -> tuple[float, float] | None:
    """Work per step on both sides, for a rate: rate times step time."""
    done = []
    for figures in (before, after):
        rates, steps = figures.processes.get(quantity.name), figures.processes.get(_STEP_TIME)
        if quantity.more_is_worse or not rates or not steps:
            return None
        done.append(rates[0] * steps[0])
    return done[0], done[1]
