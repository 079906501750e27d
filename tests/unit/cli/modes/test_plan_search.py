"""The plans behind `perfkit plan --search`: with few blocks to see what can act, and the time that is left."""

import pytest
from rich.console import Console

from perfkit.analysis.model.plan import PlannedPeak, PlannedVariant
from perfkit.core.spec import WorkloadSpec, format_variant_label
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.target.target import Target, parse_target
from perfkit.store.request import BenchRequest
from perfkit_cli.modes import plan_search

TARGET = parse_target("h100-80g", None)
BLOCKS = 5


def request(name: str, **params: int) -> BenchRequest:
    return BenchRequest(
        workload=WorkloadSpec(name=name, params={**params}), variants=((),), device="cpu", device_count=0, cores=1
    )


class Planner:
    """Plans of a fixed size in place of rehearsals; techniques in `refused` cannot act."""

    def __init__(self, refused: str) -> None:
        self.refused = refused
        self.blocks: dict[str, list[object]] = {}

    def __call__(self, run: ScheduledRun, _target: Target) -> PlannedVariant:
        name = format_variant_label(run.spec.techniques)
        blocks = run.spec.workload.params.get("num_hidden_layers")
        self.blocks.setdefault(name, []).append(blocks)
        if self.refused in name.split("+"):
            return PlannedVariant(name=name, world_size=1, reason=f"{blocks} blocks")
        peak = PlannedPeak(value=1, low=1, high=1, phase="backward", categories={})
        return PlannedVariant(name=name, world_size=1, peak_allocated_bytes=peak, fits=True, flops=1.0)


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Planner:
    made = Planner(refused="flash")
    monkeypatch.setattr(plan_search, "plan_variant", made)
    return made


def test_techniques_alone_are_planned_with_few_blocks_and_a_refusal_with_all(planner: Planner) -> None:
    searched = plan_search.run_search(request("qwen3-0.6b", num_hidden_layers=BLOCKS), TARGET, Console(quiet=True))
    assert planner.blocks["ckpt"] == [2]  # with all blocks it is not needed
    assert planner.blocks["flash"] == [2, BLOCKS]
    assert planner.blocks["baseline"] == [BLOCKS]
    assert planner.blocks["amp+optim_in_backward"] == [BLOCKS]
    assert searched.left_out == {"flash": f"{BLOCKS} blocks"}


def test_a_workload_whose_blocks_are_no_parameter_is_planned_as_it_is(planner: Planner) -> None:
    searched = plan_search.run_search(request("resnet"), TARGET, Console(quiet=True))
    assert planner.blocks["flash"] == [None]
    assert searched.planned == len(searched.fitting) > 1


def test_the_remaining_time_is_that_of_as_many_plans() -> None:
    remaining = plan_search._Remaining()
    said = [remaining.describe_rest(left, now_s) for left, now_s in ((30, 100.0), (10, 104.0), (8, 106.0))]
    assert [any(figure in text for text in said) for figure in ("40.0 s", "24.0 s")] == [True, True]
    assert not any(character.isdigit() for character in said[0])
