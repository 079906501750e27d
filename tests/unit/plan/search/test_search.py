"""Which combinations are planned, and in what order those that fit come."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice, product
from math import prod
from zlib import crc32

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, PlannedPeak, PlannedVariant, PlanSearch, StepTime
from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.measure.schedule import Techniques
from perfkit.plan.search.exclusions import PLANNED_WHOLE
from perfkit.plan.search.search import FLOPS, TIME, search_combinations
from perfkit.plan.search.search_tasks import PlanDepth, SearchTask, TaskPlan
from perfkit.techniques.compose import are_compatible

# What is left of 100 bytes with each technique, and what is added to 100 FLOPs.
_LEFT = {"amp": 0.8, "bf16": 0.7, "flash": 0.9, "optim_in_backward": 0.95, "zero1": 0.9, "zero2": 0.8, "zero3": 0.6}
_RECOMPUTED = {"ckpt:mode=selective": 5, "ckpt": 30}
# What is left of the step time with each.
_TIME = {"amp": 0.5, "bf16": 0.45, "flash": 0.7, "optim_in_backward": 1.02, "zero1": 0.96, "zero2": 0.97, "zero3": 1.1}
_TIME |= {"ckpt:mode=selective": 1.06, "ckpt": 1.3, "zero2:param_dtype=bf16": 0.46, "zero3:param_dtype=bf16": 0.55}
_LOW = {"amp", "bf16", "zero2:param_dtype=bf16", "zero3:param_dtype=bf16"}
_LEFT |= {"ckpt:mode=selective": 0.8, "ckpt": 0.6, "zero2:param_dtype=bf16": 0.7, "zero3:param_dtype=bf16": 0.55}


class Planner:
    """Plans that are made up: `limit` bytes fit, `lacking` techniques cannot act, unless with what `lifts` that.

    Estimates are off by up to `error` and, where `unequal`, of other FLOPs.
    """

    def __init__(
        self,
        limit: float,
        lacking: str = "",
        seconds: float | None = None,
        lifts: str = "",
        error: float = 0.0,
        unequal: bool = False,
    ) -> None:
        self.limit, self.lacking, self.seconds, self.lifts = limit, lacking, seconds, lifts
        self.error, self.unequal = error, unequal
        self.asked: dict[PlanDepth, list[str]] = {depth: [] for depth in PlanDepth}

    def plan(self, task: SearchTask) -> TaskPlan:
        name = format_variant_label(task.techniques)
        self.asked[task.depth].append(name)
        variant = self(task.techniques)
        labels = {technique.label for technique in task.techniques}
        products_s = 0.0 if self.seconds is None or labels & _LOW else 0.7 * self.seconds
        if task.depth is not PlanDepth.ESTIMATE or variant.reason:
            return TaskPlan(variant, products_s)
        off = 1 + self.error * (crc32(name.encode()) % 11 / 5 - 1)
        assert variant.peak_allocated_bytes is not None
        low = int(variant.peak_allocated_bytes.value * (1 - self.error))
        peak = replace(variant.peak_allocated_bytes, low=low)
        time = None
        if variant.step_s is not None:
            time = replace(variant.step_s, total=make_exact(variant.step_s.total.value * off))
        flops = (variant.flops or 0) * (1.1 if self.unequal else 1)
        fits = None if low <= self.limit < peak.high else variant.fits
        return TaskPlan(replace(variant, peak_allocated_bytes=peak, step_s=time, flops=flops, fits=fits), products_s)

    def __call__(self, techniques: Techniques) -> PlannedVariant:
        name, labels = format_variant_label(techniques), [technique.label for technique in techniques]
        if self.lacking in labels and self.lifts not in labels:
            return PlannedVariant(name=name, world_size=1, reason="it cannot act")
        needed = int(100 * prod(_LEFT[label] for label in labels))
        flops = 100.0 + sum(_RECOMPUTED.get(label, 0) for label in labels)
        time = None
        if self.seconds is not None:
            total = self.seconds * prod(_TIME.get(label, 1) for label in labels)
            time = StepTime(total=make_exact(total), parts={}, dominant="", source="")
        peak = PlannedPeak(value=needed, low=needed, high=needed, phase="backward", categories={})
        return PlannedVariant(
            name=name, world_size=1, peak_allocated_bytes=peak, fits=needed <= self.limit, flops=flops, step_s=time
        )


def make_exact(value: float) -> Interval:
    return Interval(value=value, low=value, high=value)


def found(
    planner: Planner, ranks: int = 1, in_flight: int = 1, estimates: bool = False
) -> tuple[PlanSearch, list[tuple[int, str]]]:
    told: list[tuple[int, str]] = []
    searched = search_combinations(
        partial(plan_several, planner, in_flight),
        ranks,
        lambda left, task, last: told.append((left, last.name)),
        estimates,
    )
    return searched, told


def plan_several(
    planner: Planner, in_flight: int, tasks: Iterable[SearchTask]
) -> Iterator[tuple[SearchTask, TaskPlan]]:
    """So many at a time; the last that was begun ends first."""
    waiting = iter(tasks)
    begun: list[SearchTask] = []
    while True:
        begun += islice(waiting, in_flight - len(begun))
        if not begun:
            return
        task = begun.pop()
        yield task, planner.plan(task)


def plan_all(planner: Planner, ranks: int) -> list[str]:
    """Every combination that fits, by its own plan, without those of which one fits that recomputes less."""
    ladders = (("", "zero1", "zero2", "zero3") if ranks > 1 else ("",), ("", "flash"), ("", "optim_in_backward"))
    half = ("zero2:param_dtype=bf16", "zero3:param_dtype=bf16") if ranks > 1 else ()
    fitting: dict[str, float] = {}
    for names in product(("", "amp", "bf16", *half), *ladders):
        for recomputed in ("", "ckpt:mode=selective", "ckpt"):
            label = "+".join(filter(None, (*names, recomputed))) or "baseline"
            specs = parse_variants(label)[0]
            if are_compatible(specs) and (variant := planner(specs)).fits:
                fitting[variant.name] = variant.flops or 0
                break
    return sorted(fitting, key=lambda name: fitting[name])


@pytest.mark.parametrize("in_flight", [1, 2, 5])
@pytest.mark.parametrize(("limit", "ranks"), [(10, 2), (38, 2), (55, 4), (66, 1), (84, 1), (1000, 2)])
def test_the_same_combinations_as_where_every_one_is_planned(limit: float, ranks: int, in_flight: int) -> None:
    planner = Planner(limit)
    searched, told = found(planner, ranks, in_flight)
    assert sorted(variant.name for variant in searched.fitting) == sorted(plan_all(Planner(limit), ranks))
    planned = planner.asked[PlanDepth.WHOLE]
    assert len(planned) == len({*planned}) == searched.planned < searched.combinations
    assert planner.asked[PlanDepth.ESTIMATE] == []
    assert told[-1][0] == 0


@pytest.mark.parametrize(("in_flight", "error"), [(1, 0.0), (3, 0.009)])
@pytest.mark.parametrize(("limit", "ranks"), [(10, 2), (24, 4), (38, 2), (66, 1), (84, 1), (1000, 2)])
def test_estimates_find_the_best_of_all_by_whole_plans(limit: float, ranks: int, error: float, in_flight: int) -> None:
    every, _ = found(Planner(limit, seconds=1.0), ranks)
    planner = Planner(limit, seconds=1.0, error=error)
    searched, told = found(planner, ranks, in_flight, estimates=True)
    assert searched.fitting[:1] == every.fitting[:1]
    assert searched.combinations == every.combinations
    assert {variant.name for variant in searched.fitting} <= {variant.name for variant in every.fitting}
    assert len(searched.fitting) >= min(PLANNED_WHOLE, len(every.fitting))
    assert searched.planned == len(planner.asked[PlanDepth.WHOLE]) <= every.planned
    estimated = planner.asked[PlanDepth.ESTIMATE]
    assert len(estimated) == len({*estimated})
    assert told[-1][0] == 0
    if error == 0.0:  # the order of the five is that of the estimates
        assert searched.fitting[:PLANNED_WHOLE] == every.fitting[:PLANNED_WHOLE]


def test_every_combination_is_in_the_result_or_excluded_by_a_rule() -> None:
    planner = Planner(limit=38, seconds=1.0, lacking="flash", lifts="amp", error=0.009)
    searched, _ = found(planner, ranks=2, estimates=True)
    excluded = {each.name: each for each in searched.excluded}
    assert len(excluded) + len(searched.fitting) == searched.combinations
    assert excluded.keys().isdisjoint(variant.name for variant in searched.fitting)
    rules = {name: each.rule for name, each in excluded.items()}
    assert rules["flash"] == rules["bf16+flash"] == "refused"
    assert rules["baseline"] == "saves_less"
    assert excluded["amp+flash"].by
    assert {"too_large", "slower", "recomputes_more"} <= {*rules.values()}
    assert all(each.reason for each in excluded.values())


def test_products_of_a_slow_precision_rule_out_its_combinations() -> None:
    planner = Planner(limit=60, seconds=1.0)
    searched, _ = found(planner, ranks=2, estimates=True)
    own = [name for name in planner.asked[PlanDepth.ESTIMATE] if not _LOW & {*name.split("+")}]
    assert len(own) == 1  # the one that tells how long the products take
    slower = {each.name: each.step_s for each in searched.excluded if each.rule == "slower"}
    assert slower["baseline"] == pytest.approx(0.7)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_all_is_planned_whole_where_a_whole_plan_refutes_its_estimate(in_flight: int) -> None:
    every, _ = found(Planner(limit=38, seconds=1.0), ranks=2)
    searched, _ = found(Planner(limit=38, seconds=1.0, unequal=True), 2, in_flight, estimates=True)
    assert (searched.fitting, searched.estimated) == (every.fitting, 0)


def test_what_is_estimated_to_fit_is_not_reported_where_its_whole_plan_does_not() -> None:
    class Optimist(Planner):
        def plan(self, task: SearchTask) -> TaskPlan:
            planned = super().plan(task)
            return (
                planned
                if task.depth is PlanDepth.WHOLE
                else planned._replace(variant=replace(planned.variant, fits=True))
            )

    every, _ = found(Planner(limit=38, seconds=1.0), ranks=2)
    searched, _ = found(Optimist(limit=38, seconds=1.0), ranks=2, estimates=True)
    assert searched.fitting[0] == every.fitting[0]
    assert all(variant.fits for variant in searched.fitting)


def test_no_more_is_planned_where_several_are_planned_at_a_time() -> None:
    alone, several = Planner(limit=45), Planner(limit=45)
    found(alone, 2), found(several, 2, in_flight=3)
    first, second = (planner.asked[PlanDepth.WHOLE] for planner in (alone, several))
    assert {*first} == {*second}
    assert first != second


def test_what_does_not_fit_with_the_most_savings_rules_out_all_below() -> None:
    searched, told = found(Planner(limit=10))
    # Per precision two, without and with recomputation.
    assert searched.fitting == ()
    most = {"flash+optim_in_backward", "amp+flash+optim_in_backward", "bf16+flash"}
    assert {name for _, name in told} == {*most, *(f"{name}+ckpt" for name in most)}


def test_where_everything_fits_nothing_is_recomputed() -> None:
    planner = Planner(limit=1000)
    searched, told = found(planner)
    assert not any("ckpt" in name for _, name in told)
    assert {*planner.asked[PlanDepth.WHOLE]} == {name for _, name in told}
    assert {variant.flops for variant in searched.fitting} == {100.0}


def test_the_least_recomputation_is_found() -> None:
    # 100 x 0.9 x 0.95 = 85 bytes without recomputation, 68 with selective, 51 with all.
    searched, _ = found(Planner(limit=70, lacking="amp"))
    assert searched.ordered_by == FLOPS
    names = [variant.name for variant in searched.fitting]
    assert "ckpt" not in names[0]
    assert "flash+optim_in_backward+ckpt:mode=selective" in names
    assert "flash+optim_in_backward+ckpt" not in names


def test_by_time_where_it_is_known_and_with_what_cannot_act() -> None:
    searched, _ = found(Planner(limit=1000, lacking="flash", seconds=2.0))
    assert searched.ordered_by == TIME
    assert "bf16" in searched.fitting[0].name
    assert searched.left_out == {"flash": "it cannot act"}
    assert not any("flash" in variant.name for variant in searched.fitting)


@pytest.mark.parametrize(
    ("lacking", "lifts"), [("flash", "amp"), ("zero3", "bf16"), ("ckpt", "amp"), ("optim_in_backward", "zero2")]
)
def test_what_cannot_act_alone_is_combined_with_what_lifts_the_reason(lacking: str, lifts: str) -> None:
    planner = Planner(limit=75, lacking=lacking, seconds=2.0, lifts=lifts)
    searched, _ = found(planner, ranks=2)
    acting = {*planner.asked[PlanDepth.WHOLE]}
    assert any({lacking, lifts} <= {*name.split("+")} for name in acting)
    assert not any(lacking in name.split("+") and lifts not in name.split("+") for name in acting)
    assert searched.left_out == {}
    refused = [each.name.split("+") for each in searched.excluded if each.rule == "refused"]
    assert refused
    assert all(lacking in names and lifts not in names for names in refused)


def test_shards_are_for_several_ranks() -> None:
    assert not any("zero" in variant.name for variant in found(Planner(limit=1000))[0].fitting)
    assert any("zero3" in variant.name for variant in found(Planner(limit=1000), ranks=2)[0].fitting)
