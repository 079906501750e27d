"""The least change that fits."""

import re

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import PlannedPeak, PlannedVariant
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.search import least_change
from perfkit.plan.search.least_change import suggest_least_change
from perfkit.plan.target.target import Target, parse_target
from perfkit.plan.variants.verdict import judge_fit
from perfkit.store.request import BenchRequest
from tests.fixtures.figures import list_figures

GIB = 2**30
TARGET = parse_target("rtx-4090", None)


def variant(name: str, gib: int, flops: float | None = 100.0, ranks: int = 1) -> PlannedVariant:
    size = gib * GIB
    peak = PlannedPeak(value=size, low=size, high=size, phase="backward", categories={})
    return judge_fit(PlannedVariant(name=name, world_size=ranks, peak_allocated_bytes=peak, flops=flops), TARGET)


def request(*variants: str, ranks: int | None = None) -> BenchRequest:
    return BenchRequest(
        workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
        variants=tuple(parse_variants(",".join(variants))),
        device="cpu",
        device_count=0,
        cores=1,
        world_size=ranks,
    )


class ChangePlanner:
    """Plans of known sizes in place of rehearsals: GiB and FLOPs by the last technique."""

    def __init__(self, sizes: dict[str, tuple[int, float | None]]) -> None:
        self.sizes = sizes
        self.asked: list[str] = []

    def __call__(self, run: ScheduledRun, target: Target) -> PlannedVariant:
        assert target is TARGET
        last = run.spec.techniques[-1].label
        self.asked.append(last)
        gib, flops = self.sizes.get(last, (40, 100.0))
        return replace(variant(run.spec.variant, gib, flops), fits=None if run.skip else gib <= 24)


def told(
    monkeypatch: pytest.MonkeyPatch, planner: ChangePlanner, asked: BenchRequest, *found: PlannedVariant
) -> list[str]:
    monkeypatch.setattr(least_change, "plan_variant", planner)
    return [each.verdict for each in suggest_least_change(asked, TARGET, found, lambda _: None)]


def find_change(verdict: str) -> tuple[str, ...]:
    """The technique that makes a variant fit, and how many more FLOPs it takes."""
    found = re.search(r": (\S+) \((.*) FLOPs\)$", verdict)
    assert found is not None, verdict
    return found.groups()


def test_the_fewest_flops_of_those_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = ChangePlanner({"ckpt": (10, 133.0), "ckpt:mode=selective": (20, 107.0), "amp": (12, 100.0)})
    (said,) = told(monkeypatch, planner, request("baseline"), variant("baseline", 36))
    assert list_figures(said) == ["12.0 GiB", "7 %"]
    assert find_change(said) == ("ckpt:mode=selective", "7 % more")
    assert "amp" not in planner.asked  # it changes the losses, and others are enough
    assert "zero3" not in planner.asked  # one rank


def test_fused_attention_is_tried_and_unknown_flops_are_not_the_fewest(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = ChangePlanner({"accum": (10, None), "flash": (20, 95.0), "ckpt": (10, 133.0)})
    _, said = told(monkeypatch, planner, request("amp"), variant("baseline", 40), variant("amp", 36))
    assert find_change(said) == ("flash", "no more")


def test_what_changes_the_losses_where_nothing_else_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = told(monkeypatch, ChangePlanner({"bf16": (20, 100.0)}), request("baseline"), variant("baseline", 36))
    assert find_change(said) == ("bf16", "no more")


def test_several_ranks_may_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = ChangePlanner({"zero3": (9, 100.0)})
    (said,) = told(monkeypatch, planner, request("baseline", ranks=8), variant("baseline@8", 36, ranks=8))
    assert find_change(said) == ("zero3", "no more")


def test_the_change_is_of_the_ranks_that_were_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = ChangePlanner({"zero3": (9, 100.0)})
    found = (variant("baseline@8", 40, ranks=8), variant("amp@8", 36, ranks=8))
    _, said = told(monkeypatch, planner, request("amp"), *found)  # the request itself names no number of ranks
    assert find_change(said) == ("zero3", "no more")


def test_it_is_added_to_the_variant_that_needs_least(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = ChangePlanner({"accum": (20, 100.0), "ckpt": (20, 133.0)})
    found = (variant("baseline", 40), variant("ckpt", 30))
    first, second = told(monkeypatch, planner, request("ckpt"), *found)
    assert list_figures(first) == ["16.0 GiB"]
    assert find_change(second) == ("accum", "no more")
    assert "ckpt" not in planner.asked  # the variant has it


def test_nothing_is_tried_where_a_variant_fits_or_may(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = ChangePlanner({})
    told(monkeypatch, planner, request("amp"), variant("baseline", 40), variant("amp", 20))
    assert planner.asked == []


def test_techniques_that_do_not_go_together_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = ChangePlanner({"optim_in_backward": (10, 100.0), "ckpt": (10, 133.0)})
    found = (variant("baseline", 40), variant("accum", 36))
    _, said = told(monkeypatch, planner, request("accum"), *found)
    assert list_figures(said)[-1:] == ["33 %"]
    assert "optim_in_backward" not in planner.asked  # parameters would be updated after every microbatch
