"""The plans behind `perfkit plan --search`: short and long ones, what a terminal shows, and the time that is left."""

from collections.abc import Callable, Iterable, Iterator

import pytest
from rich.console import Console

from perfkit.analysis.model.plan import ExcludedVariant, PlannedPeak, PlannedVariant, PlanSearch
from perfkit.core.errors import PerfkitError
from perfkit.core.spec import WorkloadSpec, format_variant_label
from perfkit.plan.search.search_tasks import PlanDepth, SearchTask, TaskPlan
from perfkit.plan.target.target import Target, parse_target
from perfkit.store.request import BenchRequest
from perfkit_cli.modes import plan_search

TARGET = parse_target("h100-80g", None)


def request(name: str) -> BenchRequest:
    return BenchRequest(workload=WorkloadSpec(name=name), variants=((),), device="cpu", device_count=0, cores=1)


class Planner:
    """Plans of a fixed size in place of rehearsals; records what is planned, and in how many processes."""

    def __init__(self) -> None:
        self.depths: dict[str, list[PlanDepth]] = {}
        self.jobs: list[int] = []

    def plan(self, _request: BenchRequest, _target: Target, blocks: int | None, task: SearchTask) -> TaskPlan:
        name = format_variant_label(task.techniques)
        assert task.depth is not PlanDepth.ESTIMATE or blocks == 28
        self.depths.setdefault(name, []).append(task.depth)
        peak = PlannedPeak(value=1, low=1, high=1, phase="backward", categories={})
        return TaskPlan(PlannedVariant(name=name, world_size=1, peak_allocated_bytes=peak, fits=True, flops=1.0))

    def run(
        self, function: Callable[[SearchTask], TaskPlan], tasks: Iterable[SearchTask], jobs: int
    ) -> Iterator[tuple[SearchTask, TaskPlan | PerfkitError]]:
        for task in tasks:
            self.jobs.append(jobs)
            yield task, function(task)


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Planner:
    made = Planner()
    monkeypatch.setattr(plan_search, "plan_task", made.plan)
    monkeypatch.setattr(plan_search, "run_in_processes", made.run)
    return made


def test_combinations_of_many_blocks_are_estimated_side_by_side_and_the_first_planned_whole(planner: Planner) -> None:
    searched = plan_search.run_search(request("qwen3-0.6b"), TARGET, Console(quiet=True))
    whole = {name for name, depths in planner.depths.items() if PlanDepth.WHOLE in depths}
    assert whole == {variant.name for variant in searched.fitting}
    assert all(PlanDepth.ESTIMATE in planner.depths[name] for name in whole)
    assert searched.estimated > 0
    assert planner.jobs


def test_a_workload_whose_blocks_are_no_parameter_is_planned_whole_in_this_process(planner: Planner) -> None:
    searched = plan_search.run_search(request("resnet"), TARGET, Console(quiet=True))
    assert planner.jobs == []
    assert searched.estimated == 0
    assert searched.planned == len(searched.fitting) > 1


def test_a_line_for_each_rule_with_the_one_that_comes_closest() -> None:
    slower = [ExcludedVariant(name=f"amp{number}", rule="slower", step_s=number, reason="r") for number in (3.0, 2.0)]
    large = ExcludedVariant(name="bf16", rule="too_large", reason="over by 1 GiB")
    search = PlanSearch(
        fitting=(), ordered_by="", combinations=3, planned=0, estimated=3, left_out={}, excluded=(*slower, large)
    )
    lines = [*plan_search.format_search(search)]
    assert next(line for line in lines if line.startswith("2 ")).count("amp2.0") == 1
    assert any(line.startswith("1 ") and line.endswith("bf16: over by 1 GiB") for line in lines)


def test_the_remaining_time_is_that_of_as_many_plans() -> None:
    remaining = plan_search._Remaining()
    said = [remaining.describe_rest(left, now_s) for left, now_s in ((30, 100.0), (10, 104.0), (8, 106.0))]
    assert [any(figure in text for text in said) for figure in ("40.0 s", "24.0 s")] == [True, True]
    assert not any(character.isdigit() for character in said[0])
