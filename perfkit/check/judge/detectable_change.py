"""Detectable changes on this machine by budget, from pairs of processes that ran the same code."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median

import numpy as np

from perfkit.check.judge.looks import list_looks, plan_looks, plan_looks_for_budget
from perfkit.check.judge.process_pairs import compute_pair_ratio
from perfkit.check.judge.result import CheckCalibration, DetectableRow, Noise, Verdict
from perfkit.check.judge.sequential_tests import run_sequence
from perfkit.check.judge.student import compute_variance
from perfkit.check.judge.worsening import POWER
from perfkit.core.errors import PerfkitError
from perfkit.core.sampling import compute_log_interval
from perfkit.core.student_t import compute_t_quantile
from perfkit.store.pairs import Pair

BUDGETS_S = (60.0, 180.0, 300.0, 600.0, 1800.0)
COMPARISONS = 1000
# Fewer pairs give a spread with an error above 50 %.
FEWEST = 4


def calibrate_from_pairs(
    pairs: Sequence[Pair], turns: str, margins: Mapping[str, float], *, seed: int = 0
) -> CheckCalibration:
    """Detectable changes by budget, from A/A pairs; `margins` are the relative thresholds of times by quantity.

    Quantities missing from the pairs are omitted. Raises `PerfkitError` for fewer than four pairs.
    """
    logs = {name: _compute_log_ratios(pairs, turns, name) for name in margins}
    logs = {name: values for name, values in logs.items() if len(values) >= FEWEST}
    if not logs:
        raise PerfkitError(f"calibration needs {FEWEST} pairs; found {len(pairs)}: raise the budget")
    pair_s = median(pair.seconds for pair in pairs)
    alarms = _count_false_alarms(logs, margins, seed)
    noise = tuple(_estimate_noise(name, values, alarms[name]) for name, values in logs.items())
    return CheckCalibration(
        turns=turns,
        pairs=len(pairs),
        pair_s=pair_s,
        compared=len(pairs),
        comparisons=COMPARISONS,
        noise=noise,
        rows=tuple(_build_row(budget_s, pair_s, noise) for budget_s in BUDGETS_S),
    )


def compute_smallest_change(spread: float, pairs: int, alpha: float) -> float | None:
    """The smallest relative worsening that this many pairs detect with a probability of 95 %; None for fewer than two.

    exp((t(1 - alpha) + t(0.95)) spread / sqrt(n)) - 1 with n - 1 degrees of freedom.
    """
    if pairs < 2:
        return None
    reach = compute_t_quantile(1 - alpha, pairs - 1) + compute_t_quantile(POWER, pairs - 1)
    return math.expm1(reach * spread / math.sqrt(pairs))


def _build_row(budget_s: float, pair_s: float, noise: Sequence[Noise]) -> DetectableRow:
    plan = plan_looks_for_budget(budget_s, pair_s)
    alpha = plan.last_alpha / len(noise)
    detectable = {noisy.quantity: compute_smallest_change(noisy.spread, plan.maximum, alpha) for noisy in noise}
    return DetectableRow(budget_s=budget_s, pairs=plan.maximum, detectable=detectable)


def _compute_log_ratios(pairs: Sequence[Pair], turns: str, quantity: str) -> list[float]:
    ratios = (compute_pair_ratio(pair, quantity, turns) for pair in pairs)
    return [ratio for ratio in ratios if ratio is not None]


def _estimate_noise(quantity: str, logs: Sequence[float], false_alarms: int) -> Noise:
    interval = compute_log_interval(logs)
    assert interval is not None, "there are several pairs"
    low, high = (math.expm1(end) for end in interval)
    return Noise(
        quantity=quantity,
        spread=math.sqrt(compute_variance(logs)),
        change=math.expm1(fmean(logs)),
        low=low,
        high=high,
        false_alarms=false_alarms,
    )


def _count_false_alarms(logs: Mapping[str, list[float]], margins: Mapping[str, float], seed: int) -> dict[str, int]:
    """Count `fail` and `worse` verdicts per quantity when pairs are shuffled and sides swapped.

    The sides ran the same code, so every arrangement is equally likely. All quantities of a pair stay together.
    """
    rng = np.random.default_rng(seed)
    count = min(len(values) for values in logs.values())
    plan = plan_looks(list_looks(count))
    bounds = {name: math.log1p(margins[name]) for name in logs}
    alarms = dict.fromkeys(logs, 0)
    for _ in range(COMPARISONS):
        order = rng.permutation(count)
        signs = rng.choice((-1.0, 1.0), count)
        sample = {
            name: [values[i] * sign for i, sign in zip(order, signs, strict=True)] for name, values in logs.items()
        }
        _, verdicts = run_sequence(sample, bounds, plan)
        for name, verdict in verdicts.items():
            alarms[name] += verdict in (Verdict.FAIL, Verdict.WORSE)
    return alarms
