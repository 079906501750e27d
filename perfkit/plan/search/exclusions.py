"""Says why a search need not plan a combination, or not whole: by memory, need, or a lower bound of the step time."""

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import NamedTuple

from perfkit.analysis.model.plan import ExclusionRule, PlannedVariant
from perfkit.core.units import format_seconds
from perfkit.plan.search.combinations import Combination, recomputes_less, saves_more

PLANNED_WHOLE = 5  # combinations whose figures are asked for, the fastest

# Estimates of 32 blocks from 3 and 4 took up to 2.3 % longer than plans of them, all in the same direction.
ESTIMATE_ERROR = 0.05
_ESTIMATE_SPREAD = 0.02
_FLOPS_ERROR = 0.005  # they are affine in the number of equal blocks
_MEMORY_ERROR = 0.02

Plans = Mapping[Combination, PlannedVariant]


class Exclusion(NamedTuple):
    """Why a combination is none of a search's results; `by` is the one that rules it out, `step_s` the seconds that it
    takes by an estimate, or at least."""

    rule: ExclusionRule
    reason: str = ""
    by: Combination | None = None
    step_s: float | None = None


class ExclusionRules:
    """The rules of a search, over its estimates and its whole plans, both of which grow.

    `refusals` has the reasons of combinations that cannot act.
    """

    def __init__(self, estimated: Plans, whole: Plans) -> None:
        self.refusals: dict[Combination, str] = {}
        self._estimated, self._whole = estimated, whole
        self._products_s: dict[str, float] = {}
        self._limits: dict[int, float] = {}
        self._phase_of: dict[Combination, int] = {}

    def add_products(self, precision: str, seconds: float) -> None:
        """The products of the weights take so long at least, in a combination of this precision."""
        self._products_s[precision] = min(seconds, self._products_s.get(precision, inf))

    def enter_phase(self, number: int, phase: Iterable[Combination], by_time: bool) -> bool:
        """Exclude combinations of a phase that are slower than the fastest ones found before it.

        True if it was not entered yet, or its limit is found again.
        """
        if number in self._limits:
            return False
        self._limits[number] = self._find_limit() if by_time else inf
        self._phase_of |= dict.fromkeys(phase, number)
        return True

    def forget_limits(self) -> None:
        """Whole plans may show that one of the fastest does not fit: find the limits of all phases again."""
        self._limits.clear()

    def find_plan(self, combination: Combination) -> PlannedVariant | None:
        """The plan, or else the estimate."""
        return self._whole.get(combination) or self._estimated.get(combination)

    def find_exclusion(self, combination: Combination) -> Exclusion | None:
        """Why a combination need not be planned; None if it must be."""
        if combination in self.refusals:
            return Exclusion("refused", self.refusals[combination])
        for other, plan in self._list_plans():
            if plan.fits is False and other != combination and saves_more(other, combination):
                return Exclusion("saves_less", "a variant that saves more does not fit", other)
        return self._find_unneeded(combination) or self._find_slower(combination)

    def explain(self, combination: Combination) -> Exclusion | None:
        """Why a combination is none of the results; None if it is one."""
        plan = self.find_plan(combination)
        if plan is None:
            return self.find_exclusion(combination)
        if plan.reason:
            return Exclusion("refused", plan.reason)
        if plan.fits is False:
            source = "" if combination in self._whole else ", estimated from few blocks"
            return Exclusion("too_large", f"{plan.verdict}{source}", step_s=get_step_seconds(plan))
        step_s = get_step_seconds(plan)
        if combination not in self._whole:
            time = "" if step_s is None else f"about {format_seconds(step_s)} a step, "
            estimated = Exclusion("slower", f"{time}estimated from few blocks", step_s=step_s)
            return self._find_unneeded(combination) or estimated
        if plan.fits is None:
            return Exclusion("may_fit", plan.verdict, step_s=step_s)
        return self._find_unneeded(combination)

    def list_contenders(self) -> list[Combination]:
        """Those that fit or may, by plan or estimate, and are needed."""
        return [
            each
            for each, plan in self._list_plans()
            if plan.fits is not False and not plan.reason and not self._find_unneeded(each)
        ]

    def count_fitting(self) -> int:
        """The number of those that fit by whole plans, and are needed."""
        return sum(each in self._whole and self._whole[each].fits is True for each in self.list_contenders())

    def get_order_key(self, combination: Combination) -> tuple[float, float]:
        """The step time of a planned or estimated combination, else its FLOPs."""
        plan = self.find_plan(combination)
        assert plan is not None, "contenders are planned"
        step_s = get_step_seconds(plan)
        return inf if step_s is None else step_s, plan.flops or inf

    def may_be_fastest(self, combination: Combination) -> bool:
        """True if a whole plan could show an estimated combination to be faster than all that fit by whole plans."""
        known = {each: get_step_seconds(plan) for each, plan in self._whole.items()}
        best = min((known[each] or inf for each, plan in self._whole.items() if plan.fits), default=inf)
        estimates = {each: get_step_seconds(plan) for each, plan in self._estimated.items()}
        ratios = (step_s / estimate for each, step_s in known.items() if step_s and (estimate := estimates.get(each)))
        least = min(ratios, default=1.0) * (1 - _ESTIMATE_SPREAD)
        return (estimates.get(combination) or inf) * least < best

    def _list_plans(self) -> Iterator[tuple[Combination, PlannedVariant]]:
        yield from self._whole.items()
        yield from ((each, plan) for each, plan in self._estimated.items() if each not in self._whole)

    def _find_unneeded(self, combination: Combination) -> Exclusion | None:
        if not combination.recomputes:
            return None
        fitting = (other for other, plan in self._list_plans() if plan.fits and recomputes_less(other, combination))
        other = next(fitting, None)
        return None if other is None else Exclusion("recomputes_more", "a variant that recomputes less fits", other)

    def _find_slower(self, combination: Combination) -> Exclusion | None:
        """A combination that takes longer than the fastest ones by a lower bound of its time."""
        limit = self._limits.get(self._phase_of.get(combination, -1), inf)
        least = limit / (1 - ESTIMATE_ERROR)
        products_s = self._products_s.get(combination.precision, 0.0)
        if products_s > least:
            reason = f"at least {format_seconds(products_s)} a step: FLOPs of the weights' products over the peak"
            return Exclusion("slower", reason, step_s=products_s)
        for other, plan in self._list_plans():
            step_s = get_step_seconds(plan)
            if step_s is not None and step_s > least and recomputes_less(other, combination):
                reason = f"at least {format_seconds(step_s)} a step, which it takes with less recomputation"
                return Exclusion("slower", reason, other, step_s)
        return None

    def _find_limit(self) -> float:
        """The step time of the last of as many as are planned whole; infinite where there are fewer that fit."""
        fitting = [each for each in self.list_contenders() if (plan := self.find_plan(each)) and plan.fits]
        times = sorted(self.get_order_key(each)[0] for each in fitting)
        return times[PLANNED_WHOLE - 1] if len(times) >= PLANNED_WHOLE and times[-1] < inf else inf


def get_step_seconds(variant: PlannedVariant) -> float | None:
    return None if variant.step_s is None else variant.step_s.total.value


def is_confirmed(estimate: PlannedVariant, whole: PlannedVariant) -> bool:
    """True if a whole plan has the estimated FLOPs, about the estimated time, and no less memory than estimated."""
    if bool(estimate.reason) != bool(whole.reason):
        return False
    needed, estimated = whole.needed_bytes, estimate.needed_bytes
    pairs = (
        (whole.flops, estimate.flops, _FLOPS_ERROR),
        (get_step_seconds(whole), get_step_seconds(estimate), ESTIMATE_ERROR),
    )
    if any(value and abs(about / value - 1) > error for value, about, error in pairs if about is not None):
        return False
    return needed is None or estimated is None or estimated.low <= needed.low * (1 + _MEMORY_ERROR)
