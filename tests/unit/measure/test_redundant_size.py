"""Sizes that a workload has anyway are not run once more."""

import pytest

from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure.bench import _build_schedule
from perfkit.measure.redundant_size import explain_redundant_size
from perfkit.store.request import BenchRequest

SAME = "already has this size"


def request(variants: str, **params: int) -> BenchRequest:
    return BenchRequest(
        workload=WorkloadSpec(name="gpt", params={"size": "nano", **params}),
        variants=tuple(parse_variants(variants)),
        device="cpu",
        device_count=0,
        cores=2,
    )


@pytest.mark.parametrize(
    ("variant", "params", "same"),
    [
        ("batch:size=2", {}, True),  # nano's batches are 2 x 256 tokens
        ("batch:size=6", {"batch_size": 6}, True),
        ("batch:size=4", {}, False),
        ("seq:len=256", {}, True),
        ("seq:len=128", {}, False),
        ("batch:size=4+seq:len=128", {}, False),  # as many tokens, in other batches
        ("batch:size=2+seq:len=256", {}, True),
        ("batch:auto", {}, False),
        ("amp", {}, False),
        ("batch:size=1000000000000", {"vocab": 1}, False),  # what cannot be built is told elsewhere
    ],
)
def test_only_the_workloads_own_size_changes_nothing(variant: str, params: dict[str, int], same: bool) -> None:
    asked = request(variant, **params)
    assert explain_redundant_size(asked, asked.variants[0]).endswith(SAME) == same


def test_a_suite_skips_it_and_runs_the_others() -> None:
    schedule = _build_schedule(request("batch:size=2,batch:size=4,amp"))
    skipped = {run.spec.variant: run.skip for run in schedule.runs}
    assert skipped["batch:size=2"] == f"gpt nano {SAME}"
    assert {name for name, skip in skipped.items() if not skip} == {"baseline", "batch:size=4", "amp"}
    assert "batch:size=2" not in schedule.baselines
