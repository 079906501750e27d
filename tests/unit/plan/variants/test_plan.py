"""What a variant is rehearsed with."""

import pytest
from msgspec.structs import replace

from perfkit.core.errors import UnavailableError
from perfkit.core.spec import RunSpec, WorkloadSpec, parse_variants
from perfkit.devices.catalog.catalog import CatalogEntry, resolve_entry
from perfkit.plan.target.target import CPU, parse_target
from perfkit.plan.variants import plan as planning
from perfkit.plan.variants.plan import plan_schedule, plan_variants
from perfkit.store.request import BenchRequest
from tests.fixtures.figures import list_figures

REQUEST = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=((),), device="cpu", device_count=0, cores=2)


def test_a_step_is_gone_through_as_on_the_device_that_is_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[CatalogEntry | None] = []

    def rehearsed(spec: RunSpec, gpu: CatalogEntry | None, _eval_batch_size: int | None) -> None:
        asked.append(gpu)
        raise UnavailableError("not gone through")

    monkeypatch.setattr(planning, "rehearse_step", rehearsed)
    for target in (parse_target("h100-sxm", None), CPU):
        assert [variant.reason for variant in plan_variants(REQUEST, target)] == ["not gone through"]
    assert asked == [resolve_entry("h100-sxm"), None]


def test_a_suite_of_gpus_is_gone_through_on_a_cpu() -> None:
    request = replace(REQUEST, device="cuda", device_count=8)
    (run,) = plan_schedule(request, parse_target("h100-sxm", None)).runs
    assert (run.skip, run.spec.launch.device, run.spec.launch.threads) == ("", "cpu", 2)


def test_what_needs_a_gpu_is_refused_on_a_cpu_and_asked_of_the_gpu_otherwise() -> None:
    request = replace(REQUEST, variants=tuple(parse_variants("tf32,offload")))
    assert all(run.skip for run in plan_schedule(request).runs)
    there = plan_schedule(request, parse_target("h100-sxm", None)).runs
    assert {run.spec.variant: run.skip for run in there} == {"baseline": "", "tf32": "", "offload": ""}
    (flash,) = parse_variants("flash")
    skips = plan_schedule(replace(request, variants=(flash,)), parse_target("h100-sxm", None)).runs
    assert [run.skip for run in skips] == [
        "flash runs in bf16 or fp16 on a GPU; use --technique amp+flash, or bf16 parameters (--dtype bf16)"
    ]


def test_what_the_model_of_the_allocator_does_not_know_is_said() -> None:
    target = parse_target("h100-sxm", None)._replace(other_settings=("max_split_size_mb",))
    (said,) = planning._describe_unknown_settings(target)
    assert (said.id, said.figures) == ("plan.unmodeled_settings", {"setting": "max_split_size_mb"})
    assert [*planning._describe_unknown_settings(CPU)] == []


def test_a_setting_of_cublas_that_is_not_modeled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    (note,) = planning._describe_unknown_settings(parse_target("h100-sxm", None))
    assert (note.id, list_figures(note.text)) == ("plan.unmodeled_settings", ["16", "8"])
    assert [*planning._describe_unknown_settings(CPU)] == []


@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp16", marks=pytest.mark.nightly)])
def test_a_precision_that_the_parameters_have_already_is_a_variant_with_a_reason(dtype: str) -> None:
    request = replace(
        REQUEST,
        workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
        variants=tuple(parse_variants("amp")),
        dtype=dtype,
    )
    baseline, amp = plan_variants(request)
    assert baseline.peak_allocated_bytes is not None
    assert amp.peak_allocated_bytes is None
    assert dtype in amp.reason
