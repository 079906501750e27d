"""The peak that a watched loop's utilization refers to."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from perfkit.attach.live.step_flops import StepFlops
from perfkit.attach.watch_setup import WatchOptions, find_peak, get_step_flops
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.devices.ceilings.mixed_peak import format_peak
from tests.fixtures.figures import list_figures

A100 = DeviceCeilings(
    device="cuda",
    device_name="an A100",
    fingerprint="",
    ceilings=tuple(
        Ceiling(level=level, dtype=dtype, value=value, unit="FLOP/s", kind=CeilingKind.DATASHEET, source="a test")
        for level, dtype, value in (
            (CeilingLevel.MATRIX, "tf32", 156e12),
            (CeilingLevel.MATRIX, "bf16", 312e12),
            (CeilingLevel.VECTOR, "fp32", 19.5e12),
        )
    ),
)
RESNET = StepFlops(Unknown(reason="not asked for"), {("aten::convolution", "fp32"): 780.0, ("aten::mm", "fp32"): 19.5})


def find_peak_flops(*arguments: Any) -> float | None:
    peak = find_peak(*arguments)
    return None if peak is None else peak.value


def session(model: nn.Module, ceilings: DeviceCeilings | None = A100) -> Any:
    trained = SimpleNamespace(device=torch.device("cuda", 0), models={"": model})
    return SimpleNamespace(ceilings=ceilings, trained=trained)


def test_counted_flops_are_held_against_the_mix(fp32_gpu: dict[str, str]) -> None:
    # 780 at 156 take 5, 19.5 at 19.5 take 1.
    assert find_peak_flops(session(nn.Linear(1, 1)), "fp32", RESNET) == pytest.approx(799.5e12 / 6)
    mixed = find_peak(session(nn.Linear(1, 1)), "fp32", RESNET)
    assert mixed is not None
    assert list_figures(format_peak(mixed)) == ["133 TFLOP/s", "98 %", "2 %"]
    fp32_gpu["conv"] = "none"
    assert find_peak_flops(session(nn.Linear(1, 1)), "fp32", RESNET) == pytest.approx(19.5e12)


@pytest.mark.parametrize("layer", [nn.Conv2d(1, 1, 1), nn.LSTM(1, 1)])
def test_stated_flops_of_which_some_are_cudnns_have_no_one_peak(layer: nn.Module, fp32_gpu: dict[str, str]) -> None:
    model = nn.Sequential(layer, nn.Linear(1, 1))
    assert find_peak_flops(session(model), "fp32", None) is None
    assert find_peak_flops(session(model), "bf16", None) == 312e12
    fp32_gpu["matmul"] = "tf32"
    assert find_peak_flops(session(model), "tf32", None) == 156e12


@pytest.mark.usefixtures("fp32_gpu")
def test_stated_flops_of_matrix_products_have_the_peak_of_their_dtype() -> None:
    assert find_peak_flops(session(nn.Linear(1, 1)), "fp32", None) == 19.5e12
    assert find_peak_flops(session(nn.Linear(1, 1)), "bf16", None) == 312e12


def test_without_ceilings_of_the_device_there_is_no_peak() -> None:
    assert find_peak_flops(session(nn.Linear(1, 1), None), "bf16", None) is None


@pytest.mark.parametrize(
    ("changed", "stated", "expected"), [(False, None, 799.5), (True, None, None), (True, 5.0, 5.0)]
)
def test_flops_of_one_step_are_not_those_of_a_loop_whose_inputs_change_in_shape(
    changed: bool, stated: float | None, expected: float | None
) -> None:
    counted = None if stated else RESNET._replace(total=make_measurement(799.5, "FLOP", "a test"))
    options = WatchOptions(trace_on=(), on_outlier=None, on_drift=None, flops_per_step=stated)
    assert get_step_flops(options, counted, changed=changed) == expected
