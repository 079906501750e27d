"""What variants leave open is found one by one, and what they become keeps its place."""

from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import PlannedPeak, PlannedVariant
from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec, format_variant_label, parse_variants
from perfkit.devices.machine.device_choice import ChosenDevice
from perfkit.measure.schedule import Techniques
from perfkit.plan.search import resolve_auto
from perfkit.plan.search.resolve_auto import find_by_plan, find_open_params
from perfkit.plan.target.target import CPU, explain_unknown_gpu
from perfkit.store.layout import BatchSearch, RecomputationTrial
from perfkit.store.request import BenchRequest
from tests.fixtures.figures import list_figures

# Of four blocks; without what lies between products 40 bytes less each, whole 90 less.
PEAKS = {
    "baseline": 1000,
    **{f"ckpt:mode=selective:blocks={count}": 1000 - 40 * count for count in (1, 2, 3)},
    "ckpt:mode=selective": 840,
    **{f"ckpt:blocks={count}": 1000 - 90 * count for count in (1, 2, 3)},
    "ckpt": 640,
}


def request(variants: str, **changes: Any) -> BenchRequest:
    made = BenchRequest(
        workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
        variants=tuple(parse_variants(variants)),
        device="cpu",
        device_count=0,
        cores=2,
    )
    return replace(made, **changes)


def labels(of: BenchRequest) -> list[str]:
    return [format_variant_label(techniques) for techniques in of.variants]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plans of known peaks in place of rehearsals, and the names of what was planned."""
    names: list[str] = []

    def plan_of(_request: object, _target: object, progress: Any = lambda _: None) -> Any:
        def plan(techniques: Techniques) -> PlannedVariant:
            name = format_variant_label(techniques)
            names.append(name)
            progress(name)
            size = PEAKS[name]
            peak = PlannedPeak(value=size, low=size, high=size, phase="backward", categories={})
            return PlannedVariant(name=name, world_size=1, peak_allocated_bytes=peak, blocks=4)

        return plan

    monkeypatch.setattr(resolve_auto, "make_planner", plan_of)
    return names


def test_a_plan_alone_finds_the_least_recomputation(plans: list[str]) -> None:
    told: list[str] = []
    asked = request("amp,ckpt:fit=900B,ckpt:fit=600B,ckpt:fit=1kB")
    found = find_by_plan(asked, CPU, told.append)
    assert labels(found.request) == ["amp", "ckpt:mode=selective:blocks=3", "ckpt:fit=600B", "baseline"]
    assert [(search.requested_variant, search.selected_variant) for search in found.recomputations] == [
        ("ckpt:fit=900B", "ckpt:mode=selective:blocks=3"),
        ("ckpt:fit=600B", None),
        ("ckpt:fit=1kB", "baseline"),
    ]
    assert [*found.refusals] == ["ckpt:fit=600B"]
    assert list_figures(found.refusals["ckpt:fit=600B"]) == ["600 B", "640 B"]
    assert told == plans


def test_a_plan_finds_no_batch() -> None:
    with pytest.raises(UsageError, match="batch:auto"):
        find_by_plan(request("batch:auto"), CPU)


def test_before_a_bench_runs_have_the_last_word(plans: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def trials_of(asked: BenchRequest, _progress: object) -> Any:
        assert asked.device == "cpu"
        return lambda techniques, trial: replace(trial, measured_bytes=PEAKS[format_variant_label(techniques)] + 30)

    monkeypatch.setattr(resolve_auto, "make_trial_runner", trials_of)
    found = find_open_params(request("ckpt:fit=900B"), lambda _: None)
    assert labels(found.request) == ["ckpt:mode=selective"]  # 880 are planned with three blocks, and 910 taken
    (search,) = found.recomputations
    trials = {trial.variant: trial for trial in search.trials}
    assert trials["ckpt:mode=selective:blocks=3"] == RecomputationTrial(
        variant="ckpt:mode=selective:blocks=3", fits=False, planned_bytes=880.0, measured_bytes=910.0
    )
    assert trials["ckpt:mode=selective"].fits is True


def test_a_batch_is_searched_for_from_where_a_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def with_largest_batch(techniques: Techniques, most: int, **options: Any) -> tuple[Techniques, BatchSearch]:
        asked.append({"most": most, **options})
        (found,) = parse_variants("batch:size=9")
        search = BatchSearch(
            requested_variant="batch:auto",
            selected_variant="batch:size=9",
            limit_bytes=1.0,
            margin=0.1,
            max_size=most,
            trials=(),
        )
        return found, search

    monkeypatch.setattr(resolve_auto, "find_largest_batch", with_largest_batch)
    monkeypatch.setattr(resolve_auto, "predict_batch", lambda *_: 7)
    monkeypatch.setattr(resolve_auto, "read_batch_size", lambda *_: 2)
    found = find_open_params(request("batch:auto:most=64,ckpt"), lambda _: None)
    assert labels(found.request) == ["batch:size=9", "ckpt"]
    assert (asked[0]["most"], asked[0]["first"], asked[0]["predicted"]) == (64, 2, 7)
    assert [search.selected_variant for search in found.batches] == ["batch:size=9"]
    assert not found.refusals


def test_on_a_gpu_of_which_nothing_is_known_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve_auto, "find_device", lambda _: ChosenDevice("cuda", "A GPU of tomorrow", 1))
    found = find_open_params(request("ckpt:fit=900B", device="cuda", device_count=1), lambda _: None)
    assert labels(found.request) == ["ckpt:fit=900B"]
    assert found.refusals == {"ckpt:fit=900B": explain_unknown_gpu("A GPU of tomorrow")}


def test_what_cannot_run_is_neither_planned_nor_tried(plans: list[str]) -> None:
    found = find_open_params(request("zero3+ckpt:fit=900B", device="cuda", device_count=1), lambda _: None)
    assert labels(found.request) == ["zero3+ckpt:fit=900B"]  # skipped with its own reason
    assert (found.refusals, plans) == ({}, [])
