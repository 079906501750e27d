"""Judges quantities from process pairs: one log ratio per pair, at planned looks.

Steps of one process are correlated, so tests on pooled steps call every third identical pair different. Only pairs are
independent: each gives one number (Georges, Buytaert and Eeckhout, OOPSLA 2007; Kalibera and Jones, ISMM 2013). If the
sides are equal, the processes of a pair are exchangeable, so the log ratio is symmetric about 0 for any distribution.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from perfkit.check.judge.check_thresholds import Threshold, compute_margin
from perfkit.check.judge.check_verdicts import Question, judge_quantity, make_judgment
from perfkit.check.judge.looks import LookPlan
from perfkit.check.judge.quantities import GatedQuantity
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit.check.judge.sequential_tests import compute_levels
from perfkit.check.judge.student import estimate_mean
from perfkit.check.judge.worsening import Worsening, convert_to_log_scale
from perfkit.core.record.step_samples import compute_log_ratio, select_common_clock
from perfkit.store.pairs import LOCK_STEP, Pair

CPU_TIME = "cpu_time"

# Gates with the same key are one hypothesis: clock, log ratio of work per step, bound, gated.
_Key = tuple[str, float, float, bool]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A paired quantity with its threshold; None: only reported.

    `per_step` is the work per step, before and after, for rates (`per_step` / step time): tokens for throughput, model
    FLOPs / device peak for MFU.
    """

    quantity: GatedQuantity
    threshold: Threshold | None = None
    per_step: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class _MeasuredGate:
    """A gate with its measurements. Gates with the same `key` are one hypothesis."""

    question: Question
    key: _Key
    worsening: Worsening | None


def compute_pair_ratio(pair: Pair, quantity: str, turns: str) -> float | None:
    """The log ratio after / before of one pair's step times, CPU times for `cpu_time`:
    `perfkit.core.record.step_samples.compute_log_ratio`.
    """
    return compute_log_ratio(pair.before, pair.after, by_turns=turns == LOCK_STEP, cpu=quantity == CPU_TIME)


def judge_pairs(
    pairs: Sequence[Pair], turns: str, gates: Sequence[Gate], plan: LookPlan, *, family: int = 0
) -> tuple[JudgedQuantity, ...]:
    """Each gate's verdict from the pairs so far, in the order of `gates`.

    Only pairs up to the last planned look count, so calls between looks spend no level. The level holds over all looks
    and all gated quantities. `family` is the number of all estimated gated quantities, if others are judged elsewhere.

    `before` and `after` are medians over processes, `change` is the mean log ratio over pairs, and may differ a little
    from their quotient. Quantities from the same data, such as step time and throughput, are one hypothesis.
    """
    look = plan.look_at(len(pairs))
    measured = [_measure_gate(gate, pairs[: look or len(pairs)], turns) for gate in gates]
    levels = compute_levels(look, plan, {m.key: m.worsening for m in measured if m.worsening}, family)
    return tuple(
        judge_quantity(m.question, m.worsening, levels[m.key]) if m.worsening else _judge_without_estimate(m.question)
        for m in measured
    )


def _measure_gate(gate: Gate, pairs: Sequence[Pair], turns: str) -> _MeasuredGate:
    quantity = gate.quantity
    ratios = [compute_pair_ratio(pair, quantity.name, turns) for pair in pairs]
    known = [(pair, ratio) for pair, ratio in zip(pairs, ratios, strict=True) if ratio is not None]
    question = Question(
        quantity=quantity,
        threshold=gate.threshold,
        samples=len(known),
        sample_s=median(pair.seconds for pair in pairs) if pairs else None,
    )
    if not known:
        return _MeasuredGate(question=question, key=(quantity.name, 0.0, 0.0, False), worsening=None)
    steps = [
        [median(side) for side in select_common_clock(pair.before, pair.after, cpu=quantity.name == CPU_TIME)]
        for pair, _ in known
    ]
    before, after = (median(values) for values in zip(*steps, strict=True))
    done = 0.0
    if gate.per_step is not None:
        before, after = gate.per_step[0] / before, gate.per_step[1] / after
        done = math.log(gate.per_step[1] / gate.per_step[0])
    question = replace(question, before=before, after=after)
    allowed = None
    if gate.threshold is not None:
        allowed = compute_margin(gate.threshold, before, more_is_worse=quantity.more_is_worse)
    mean = estimate_mean([ratio - done for _, ratio in known])
    worsening = None
    if mean is not None:
        worsening = Worsening(
            mean=mean,
            samples=len(known),
            more_is_worse=quantity.more_is_worse,
            margin=convert_to_log_scale(allowed, more_is_worse=quantity.more_is_worse),
        )
    clock = CPU_TIME if quantity.name == CPU_TIME else "step_time"
    bound = worsening.bound if worsening else 0.0
    return _MeasuredGate(question=question, key=(clock, done, bound, allowed is not None), worsening=worsening)


def _judge_without_estimate(question: Question) -> JudgedQuantity:
    if not question.samples:
        return make_judgment(question, Verdict.NOT_COMPARED, f"no pair has a {question.quantity.title} on both sides")
    gated = question.threshold is not None
    before, after = question.before, question.after
    return make_judgment(
        question,
        Verdict.INCONCLUSIVE if gated else Verdict.PASS,
        "a single pair shows no variation between pairs",
        change=after / before - 1 if before and after is not None else None,
        to_decide="at least two pairs; six unless the change is large" if gated else "",
    )
