"""What a variant is rehearsed with."""

import pytest

from perfkit.devices.peak import Fp32Settings
from perfkit.errors import UnavailableError
from perfkit.plan import plan as planning
from perfkit.plan.plan import plan
from perfkit.plan.target import CPU, target_of
from perfkit.spec import RunSpec, WorkloadSpec
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
