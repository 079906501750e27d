"""What a variant is rehearsed with."""

import pytest

from perfkit.devices.peak import Fp32Settings
from perfkit.errors import UnavailableError
from perfkit.plan import plan as planning
from perfkit.plan.plan import plan, plan_schedule, scheduled
from perfkit.plan.target import CPU, target_of
from perfkit.spec import RunSpec, WorkloadSpec, parse_variants
from perfkit.store.request import BenchRequest


def test_a_step_on_a_gpu_computes_fp32_as_the_gpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def rehearsed(spec: RunSpec, kind: str, fp32: Fp32Settings | None) -> None:
        asked.append((kind, None if fp32 is None else fp32.conv))
        raise UnavailableError("not gone through")

    monkeypatch.setattr(planning, "rehearse", rehearsed)
    request = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=((),), device="cpu", device_count=0, cores=2)
    for target in (target_of("h100-sxm", None), CPU):
        assert [variant.reason for variant in plan(request, target)] == ["not gone through"]
    assert asked == [("cuda", "tf32"), ("cpu", None)]


def test_what_a_cpu_only_emulates_is_no_plan_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "refusal_of", lambda *_: "")  # torchao may be missing
    request = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=0, cores=2)
    (fp8,) = parse_variants("ckpt+fp8")
    on_gpu, on_cpu = (scheduled(request, fp8, target).skip for target in (target_of("h100-sxm", None), CPU))
    assert on_gpu == "a cpu device has no fp8 products: they are made in fp32; a plan goes through the step on a CPU"
    assert on_cpu == ""  # the run would emulate them too


def test_a_suite_of_gpus_is_gone_through_on_a_cpu() -> None:
    request = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=((),), device="cuda", device_count=8, cores=2)
    (run,) = plan_schedule(request, target_of("h100-sxm", None)).runs
    assert (run.skip, run.spec.launch.device, run.spec.launch.threads) == ("", "cpu", 2)
