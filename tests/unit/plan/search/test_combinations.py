"""Which combinations are planned, and in what order those that fit come."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice, product
from math import prod

import pytest

from perfkit.analysis.model.plan import Interval, PlannedPeak, PlannedVariant, PlanSearch, StepTime
from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.measure.schedule import Techniques
from perfkit.plan.search.combinations import FLOPS, TIME, search_combinations
from perfkit.techniques.compose import are_compatible

# What is left of 100 bytes with each technique, and what is added to 100 FLOPs.
_LEFT = {"amp": 0.8, "bf16": 0.7, "flash": 0.9, "optim_in_backward": 0.95, "zero1": 0.9, "zero2": 0.8, "zero3": 0.6}
_RECOMPUTED = {"ckpt:mode=selective": 5, "ckpt": 30}
_LEFT |= {"ckpt:mode=selective": 0.8, "ckpt": 0.6, "zero2:param_dtype=bf16": 0.7, "zero3:param_dtype=bf16": 0.55}


class Planner:
    """Plans that are made up: `limit` bytes fit, `lacking` techniques cannot act, unless with what `lifts` that."""

    def __init__(self, limit: float, lacking: str = "", seconds: float | None = None, lifts: str = "") -> None:
        self.limit, self.lacking, self.seconds, self.lifts = limit, lacking, seconds, lifts
        self.asked: list[str] = []

    def __call__(self, techniques: Techniques) -> PlannedVariant:
        name, labels = format_variant_label(techniques), [technique.label for technique in techniques]
        self.asked.append(name)
        if self.lacking in labels and self.lifts not in labels:
            return PlannedVariant(name=name, world_size=1, reason="it cannot act")
        needed = int(100 * prod(_LEFT[label] for label in labels))
        flops = 100.0 + sum(_RECOMPUTED.get(label, 0) for label in labels)
        time = None
        if self.seconds is not None:
            total = self.seconds / (2 if "amp" in labels else 1)
            time = StepTime(total=Interval(value=total, low=total, high=total), parts={}, dominant="", source="")
        peak = PlannedPeak(value=needed, low=needed, high=needed, phase="backward", categories={})
        return PlannedVariant(
            name=name, world_size=1, peak_allocated_bytes=peak, fits=needed <= self.limit, flops=flops, step_s=time
        )


def found(
    planner: Planner, ranks: int = 1, in_flight: int = 1
) -> tuple[PlanSearch, list[tuple[int, int, str]], list[str]]:
    told: list[tuple[int, int, str]] = []
    probe = replace_asked(planner)
    searched = search_combinations(
        partial(plan_several, planner, in_flight),
        probe,
        ranks,
        lambda done, total, last: told.append((done, total, last.name)),
    )
    return searched, told, probe.asked


def replace_asked(planner: Planner) -> Planner:
    """The same plans, counted apart."""
    return Planner(planner.limit, planner.lacking, planner.seconds, planner.lifts)


def plan_several(
    planner: Planner, in_flight: int, combinations: Iterable[Techniques]
) -> Iterator[tuple[Techniques, PlannedVariant]]:
    """So many at a time; the last that was begun ends first."""
    waiting = iter(combinations)
    begun: list[Techniques] = []
    while True:
        begun += islice(waiting, in_flight - len(begun))
        if not begun:
            return
        techniques = begun.pop()
        yield techniques, planner(techniques)


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
    searched, told, _ = found(planner, ranks, in_flight)
    assert sorted(variant.name for variant in searched.fitting) == sorted(plan_all(Planner(limit), ranks))
    assert len(planner.asked) == len({*planner.asked}) == searched.planned < searched.combinations
    assert told[-1][:2] == (searched.combinations, searched.combinations)


def test_no_more_is_planned_where_several_are_planned_at_a_time() -> None:
    alone, several = Planner(limit=45), Planner(limit=45)
    found(alone, 2), found(several, 2, in_flight=3)
    assert {*alone.asked} == {*several.asked}
    assert alone.asked != several.asked


def test_what_does_not_fit_with_the_most_savings_rules_out_all_below() -> None:
    searched, told, _ = found(Planner(limit=10))
    # Per precision two, without and with recomputation.
    assert searched.fitting == ()
    most = {"flash+optim_in_backward", "amp+flash+optim_in_backward", "bf16+flash"}
    assert {name for *_, name in told} == {*most, *(f"{name}+ckpt" for name in most)}


def test_where_everything_fits_nothing_is_recomputed() -> None:
    planner = Planner(limit=1000)
    searched, told, _ = found(planner)
    assert not any("ckpt" in name for *_, name in told)
    assert {*planner.asked} == {name for *_, name in told}
    assert {variant.flops for variant in searched.fitting} == {100.0}


def test_the_least_recomputation_is_found() -> None:
    # 100 x 0.9 x 0.95 = 85 bytes without recomputation, 68 with selective, 51 with all.
    searched, *_ = found(Planner(limit=70, lacking="amp"))
    assert searched.ordered_by == FLOPS
    names = [variant.name for variant in searched.fitting]
    assert "ckpt" not in names[0]
    assert "flash+optim_in_backward+ckpt:mode=selective" in names
    assert "flash+optim_in_backward+ckpt" not in names


def test_by_time_where_it_is_known_and_with_what_cannot_act() -> None:
    searched, *_ = found(Planner(limit=1000, lacking="flash", seconds=2.0))
    assert searched.ordered_by == TIME
    assert "amp" in searched.fitting[0].name
    assert searched.left_out == {"flash": "it cannot act"}
    assert not any("flash" in variant.name for variant in searched.fitting)


@pytest.mark.parametrize(("lacking", "lifts"), [("flash", "amp"), ("zero3", "bf16"), ("ckpt", "amp")])
def test_what_cannot_act_alone_is_combined_with_the_precision_that_lifts_the_reason(lacking: str, lifts: str) -> None:
    searched, _, probed = found(Planner(limit=40, lacking=lacking, seconds=2.0, lifts=lifts), ranks=2)
    fitting = [variant.name.split("+") for variant in searched.fitting]
    assert any({lacking, lifts} <= {*names} for names in fitting)
    assert not any(lacking in names and lifts not in names for names in fitting)
    assert searched.left_out == {}
    alone = [name for name in probed if lacking in name.split("+") and lifts not in name.split("+")]
    assert all(len(name.split("+")) <= 2 for name in alone)  # none of the combinations that it cannot act in


def test_shards_are_for_several_ranks() -> None:
    assert not any("zero" in variant.name for variant in found(Planner(limit=1000))[0].fitting)
    assert any("zero3" in variant.name for variant in found(Planner(limit=1000), ranks=2)[0].fitting)
