"""Judges quantities together as pairs accumulate: one look, or a sequence of looks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from perfkit.check.judge.check_verdicts import SignificanceLevels, decide_verdict, is_decided
from perfkit.check.judge.looks import LookPlan
from perfkit.check.judge.result import Verdict
from perfkit.check.judge.student import estimate_mean
from perfkit.check.judge.worsening import Worsening


def adjust_p_values(p_values: Sequence[float], family: int = 0) -> list[float]:
    """Holm's adjusted p-values in the given order, to be compared with the family's level.

    The i-th smallest of m is multiplied by m - i + 1 and is no less than those before it (S. Holm, Scand. J. Statist.
    6 (1979), 65-70). Valid for any dependence between quantities. A `family` larger than the
    number of p-values counts hypotheses that are tested elsewhere as if they came last.
    """
    size = max(family, len(p_values))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    result = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (size - rank) * p_values[index]))
        result[index] = largest
    return result


Key = TypeVar("Key")


def compute_levels(
    look: int, plan: LookPlan, worsenings: Mapping[Key, Worsening], family: int = 0
) -> dict[Key, SignificanceLevels]:
    """The levels for each hypothesis at a look (0: before the first one).

    A wrong rejection at any look needs a p-value below that look's level over the number of true hypotheses, so that
    Holm's procedure at each look holds the level over all of them (Tamhane et al., Statist. Med. 40 (2021), 5333-5350,
    review such procedures). Hypotheses without a margin are not tested.
    """
    tested = {key: worsening for key, worsening in worsenings.items() if worsening.margin is not None}
    size = max(family, len(tested), 1)
    worse = dict(zip(tested, adjust_p_values([worsening.p_worse for worsening in tested.values()], size), strict=True))
    better = dict(
        zip(tested, adjust_p_values([worsening.p_better for worsening in tested.values()], size), strict=True)
    )
    return {
        key: SignificanceLevels(
            alpha=plan.get_alpha(look) if look else 0.0,
            last_alpha=plan.last_alpha,
            family=size,
            p_worse=worse.get(key, 1.0),
            p_better=better.get(key, 1.0),
        )
        for key in worsenings
    }


def is_settled(verdicts: Iterable[tuple[Verdict, bool]]) -> bool:
    """True if more pairs cannot change the overall verdict, from each verdict and its `decided` flag.

    That is, a failure is decided, or everything is.
    """
    known = set(verdicts)
    return (Verdict.FAIL, True) in known or all(decided for _, decided in known)


def run_sequence(
    logs: Mapping[str, Sequence[float]], margins: Mapping[str, float], plan: LookPlan
) -> tuple[int, dict[str, Verdict]]:
    """The end of sampling for these log ratios, and the verdicts there: for simulations and calibration.

    `logs` and `margins` (log ratios too) are by quantity, positive is worse; there are as many as the plan's last look.
    """
    for look in plan.looks:
        worsenings = {}
        for name, values in logs.items():
            mean = estimate_mean(values[:look])
            if mean is not None:
                worsenings[name] = Worsening(mean=mean, samples=look, more_is_worse=True, margin=margins[name])
        levels = compute_levels(look, plan, worsenings)
        verdicts = {name: decide_verdict(worsening, levels[name]) for name, worsening in worsenings.items()}
        decided = [is_decided(verdicts[name], worsenings[name], levels[name]) for name in verdicts]
        if verdicts and is_settled(zip(verdicts.values(), decided, strict=True)):
            return look, verdicts
    return plan.maximum, verdicts or dict.fromkeys(logs, Verdict.INCONCLUSIVE)
