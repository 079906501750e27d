"""Which combinations are planned, which follow from others, and in what order those that fit come."""

from math import prod

from perfkit.analysis.model.plan import Interval, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.spec import format_variant_label
from perfkit.measure.schedule import Techniques
from perfkit.plan.search.combinations import FLOPS, TIME, search_combinations

# What is left of 100 bytes with each technique, and what is added to 100 FLOPs.
_LEFT = {"amp": 0.8, "bf16": 0.7, "flash": 0.9, "optim_in_backward": 0.95, "zero1": 0.9, "zero2": 0.8, "zero3": 0.6}
_RECOMPUTED = {"ckpt:mode=selective": 5, "ckpt": 30}
_LEFT |= {"ckpt:mode=selective": 0.8, "ckpt": 0.6}


class Planner:
    """Plans that are made up: `limit` bytes fit, `lacking` techniques cannot act."""

    def __init__(self, limit: float, lacking: str = "", seconds: float | None = None) -> None:
        self.limit, self.lacking, self.seconds = limit, lacking, seconds
        self.asked: list[str] = []

    def __call__(self, techniques: Techniques) -> PlannedVariant:
        name, labels = format_variant_label(techniques), [technique.label for technique in techniques]
        self.asked.append(name)
        if self.lacking in labels:
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


def found(planner: Planner, ranks: int = 1):
    told: list[tuple[int, int, str]] = []
    return search_combinations(planner, ranks, lambda done, total, last: told.append((done, total, last.name))), told


def test_what_does_not_fit_with_the_most_savings_rules_out_all_below():
    searched, told = found(Planner(limit=10))
    # Per precision one: amp and none with flash, optim_in_backward and ckpt; bf16's updates go by the table of clashes.
    # And six techniques alone.
    assert searched.fitting == ()
    assert searched.planned <= 4 + 6
    assert {name for *_, name in told} <= {"flash+optim_in_backward+ckpt", "amp+flash+optim_in_backward+ckpt",
                                           "bf16+flash+ckpt", "bf16+optim_in_backward+ckpt"}  # fmt: skip


def test_where_everything_fits_nothing_is_recomputed_in_between():
    planner = Planner(limit=1000)
    searched, told = found(planner)
    names = [name for *_, name in told]
    assert not any("selective" in name for name in names)
    assert {*names} < {*planner.asked}
    assert searched.planned == len(planner.asked) < searched.combinations
    assert searched.fitting[0].flops == 100.0
    assert searched.fitting[-1].flops == 130.0
    assert told[-1][1] == searched.combinations


def test_the_least_recomputation_is_found():
    # 100 x 0.9 x 0.95 = 85 bytes without recomputation, 68 with selective, 51 with all.
    searched, _ = found(Planner(limit=70, lacking="amp"))
    assert searched.ordered_by == FLOPS
    first = searched.fitting[0].name
    assert "ckpt" not in first
    assert "flash+optim_in_backward+ckpt:mode=selective" in {variant.name for variant in searched.fitting}


def test_by_time_where_it_is_known_and_with_what_cannot_act():
    searched, _ = found(Planner(limit=1000, lacking="flash", seconds=2.0))
    assert searched.ordered_by == TIME
    assert "amp" in searched.fitting[0].name
    assert searched.left_out == {"flash": "it cannot act"}
    assert not any("flash" in variant.name for variant in searched.fitting)


def test_nothing_is_planned_twice_and_all_plans_count():
    planner = Planner(limit=70, lacking="amp")
    searched, _ = found(planner)
    assert len(planner.asked) == len({*planner.asked})
    assert searched.planned == len(planner.asked) - 1  # amp, which cannot act, is in no combination


def test_shards_are_for_several_ranks():
    assert not any("zero" in variant.name for variant in found(Planner(limit=1000))[0].fitting)
    assert any("zero3" in variant.name for variant in found(Planner(limit=1000), ranks=2)[0].fitting)
