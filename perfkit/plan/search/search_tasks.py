"""Draws what a search plans next from what it has found, and lists what it need not plan, with the reason of each.

First techniques are tried alone and in pairs. Then each combination is planned when no earlier one that is not yet
planned can rule it out, so that the same ones are planned however many at a time. With `estimates` a combination is
estimated instead, from plans with few of the model's blocks, those that may be among the fastest first; of those that
may fit the fastest are planned whole, and each such plan checks its estimate.
"""

from enum import Enum, auto
from typing import NamedTuple

from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.spec import format_variant_label
from perfkit.measure.schedule import Techniques
from perfkit.plan.search.acting_techniques import ActingTechniques
from perfkit.plan.search.combinations import (
    Combination,
    build_ladders,
    list_combinations,
    list_precisions,
    parse_names,
    recomputes_less,
    saves_more,
)
from perfkit.plan.search.exclusions import (
    PLANNED_WHOLE,
    Exclusion,
    ExclusionRules,
    is_confirmed,
)
from perfkit.plan.search.memory_savings import list_savings


class PlanDepth(Enum):
    """How a task is planned: with few blocks, to see whether it can act; by an estimate from few blocks; whole."""

    PROBE = auto()
    ESTIMATE = auto()
    WHOLE = auto()


class SearchTask(NamedTuple):
    """Something to plan; `techniques` may be of any order."""

    techniques: Techniques
    depth: PlanDepth


class TaskPlan(NamedTuple):
    """The plan of a task, and the seconds that the products of weights take at least, 0 where that is not known."""

    variant: PlannedVariant
    products_s: float = 0.0


class SearchTasks:
    """An iterator over the tasks of a search on so many ranks; when it stops, there may be more after the next plan."""

    def __init__(self, ranks: int, estimates: bool) -> None:
        savings = list_savings(ranks)
        self.ladders, self.precisions = build_ladders(savings), list_precisions(savings)
        self.estimates = estimates
        self.combinations: list[Combination] = []
        self.whole: dict[Combination, PlannedVariant] = {}
        self._acting = ActingTechniques([name for ladder in (self.precisions, *self.ladders) for name in ladder])
        self._probing: set[frozenset[str]] = set()
        self._planning: list[Combination] = []
        self._by_label: dict[str, Combination] = {}
        self._estimated: dict[Combination, PlannedVariant] = {}
        self._open: dict[Combination, bool] = {}  # until the next plan or limit
        self._rules = ExclusionRules(self._estimated, self.whole)
        self._phases: list[list[Combination]] = []

    def __iter__(self) -> "SearchTasks":
        return self

    def __next__(self) -> SearchTask:
        unknown = [*self._acting.list_unknown()]
        if unknown:
            names = next((each for each in unknown if each not in self._probing), None)
            if names is None:
                raise StopIteration
            self._probing.add(names)
            return SearchTask(parse_names(sorted(names)), PlanDepth.PROBE)
        if not self._phases:
            self._list_combinations()
        combination = self._draw_open() or self._draw_leading()
        if combination is None:
            raise StopIteration
        self._planning.append(combination)
        is_known = combination in self._estimated
        depth = PlanDepth.ESTIMATE if self.estimates and not is_known else PlanDepth.WHOLE
        return SearchTask(combination.list_techniques(self.ladders), depth)

    def add_plan(self, task: SearchTask, plan: TaskPlan) -> None:
        label = format_variant_label(task.techniques)
        if task.depth is PlanDepth.PROBE:
            names = next(each for each in self._probing if format_variant_label(parse_names(sorted(each))) == label)
            self._acting.add_reason(names, plan.variant.reason)
            return
        combination = self._by_label[label]
        self._planning.remove(combination)
        self._open.clear()
        self._rules.add_products(combination.precision, plan.products_s)
        if task.depth is PlanDepth.ESTIMATE:
            if self.estimates:  # else a whole plan has shown meanwhile that estimates are wrong
                self._estimated[combination] = plan.variant
            return
        estimate = self._estimated.get(combination)
        self.whole[combination] = plan.variant
        if estimate is not None and not is_confirmed(estimate, plan.variant):
            self.estimates = False
            self._estimated.clear()
            self._rules.forget_limits()
        elif estimate is not None and estimate.fits and not plan.variant.fits:
            self._rules.forget_limits()

    @property
    def left_out(self) -> dict[str, str]:
        return self._acting.find_left_out()

    def count_left(self) -> int:
        """The number of plans that are left at most."""
        undecided = sum(self._is_open(each) for each in self.combinations)
        if not self.estimates:
            return undecided
        contenders = [each for each in self._rules.list_contenders() if each not in self.whole]
        return undecided + min(len(contenders) + undecided, max(0, PLANNED_WHOLE - self._rules.count_fitting()))

    def count_estimated(self) -> int:
        """The number of combinations that are estimated only."""
        return sum(each not in self.whole for each in self._estimated)

    def list_exclusions(self) -> dict[Combination, Exclusion]:
        """Why each combination is none of the result."""
        found = ((each, self._rules.explain(each)) for each in self.combinations)
        return {each: exclusion for each, exclusion in found if exclusion is not None}

    def get_label(self, combination: Combination) -> str:
        return format_variant_label(combination.list_techniques(self.ladders))

    def _list_combinations(self) -> None:
        self.combinations = list_combinations(self.precisions, self.ladders, self.left_out)
        self._by_label = {self.get_label(each): each for each in self.combinations}
        for each in self.combinations:
            refusal = self._acting.find_refusal(each.list_names(self.ladders))
            if refusal:
                self._rules.refusals[each] = refusal
        self._phases = _split_phases(self.combinations)

    def _is_open(self, combination: Combination) -> bool:
        """True if it is to be planned or estimated."""
        if combination not in self._open:
            rules = self._rules
            self._open[combination] = not rules.find_plan(combination) and not rules.find_exclusion(combination)
        return self._open[combination]

    def _draw_open(self) -> Combination | None:
        """The next combination to plan or estimate; None where there is none, or none yet."""
        for number, phase in enumerate(self._phases):
            if self._rules.enter_phase(number, phase, by_time=self.estimates):
                self._open.clear()
            undecided = [each for each in phase if self._is_open(each)]
            for place, each in enumerate(undecided):
                earlier = undecided[:place]
                if each not in self._planning and not any(_may_exclude(other, each) for other in earlier):
                    return each
            if undecided:
                return None
        return None

    def _draw_leading(self) -> Combination | None:
        """The next combination to plan whole, of those that are estimated to fit, the fastest first."""
        if not self.estimates or any(self._is_open(each) for each in self.combinations):
            return None
        ranked = sorted(self._rules.list_contenders(), key=lambda each: self._rules.get_order_key(each))
        following = next((each for each in ranked if each not in self.whole and each not in self._planning), None)
        if following is None or self._rules.count_fitting() + len(self._planning) < PLANNED_WHOLE:
            return following
        return following if not self._planning and self._rules.may_be_fastest(following) else None


def _may_exclude(other: Combination, combination: Combination) -> bool:
    return saves_more(other, combination) or recomputes_less(other, combination)


def _split_phases(combinations: list[Combination]) -> list[list[Combination]]:
    """What decides on others first: what recomputes nothing, and lower precisions, which are faster.

    The first of the workload's own precision is a phase of its own: by its products all others may be too slow.
    """
    lower = [each for each in combinations if each.precision]
    own = [each for each in combinations if not each.precision]
    phases = [
        [each for each in lower if not each.recomputes],
        [each for each in lower if each.recomputes],
        own[:1],
        [each for each in own if not each.recomputes],
        [each for each in own if each.recomputes],
    ]
    return [phase for phase in phases if phase]
