"""Attention that is derived from a sweep of another kernel."""

from math import log, sqrt

import msgspec
import pytest

from benchmarks.attention_kernels import BACKWARD, CUTLASS, PACKAGED, PROGRAM, SDPA, SECOND_ON_HOPPER, derive_attention
from perfkit.plan.timing.efficiencies import NINE_IN_TEN
from perfkit.plan.timing.efficiency_store import EfficiencySample, LearnedDevice, LearnedProgram, PackagedDevices


def make_sample(flops: float, op_class: str = "attention") -> EfficiencySample:
    return EfficiencySample(
        op_class=op_class, dtype="bf16", matrix=True, flops=flops, bytes=1e6, calls=1, seconds=1e-3, spread=0.1
    )


def make_device(device: str) -> LearnedDevice:
    samples = (make_sample(1e11), make_sample(1e6), make_sample(1e11, "GEMM"))
    return LearnedDevice(
        device=device, device_name=device, programs=(LearnedProgram(name="a sweep", samples=samples, sweep=True),)
    )


def test_large_calls_of_a_sweep_are_those_of_torchs_kernels_by_their_ratios() -> None:
    _, derived = derive_attention(make_device("h100-sxm")).programs
    assert (derived.name, derived.sweep, derived.derived) == (PROGRAM, True, True)
    times = {sample.op.removeprefix(SDPA): sample for sample in derived.samples}
    assert times.keys() == {
        "flash_attention",
        "flash_attention_backward",
        "efficient_attention",
        "efficient_attention_backward",
        "cudnn_attention_backward",
    }
    flash = times["flash_attention"]
    assert flash.seconds == pytest.approx(1e-3 * sqrt(1.5 * 2.0))
    assert flash.spread == pytest.approx(sqrt(0.1**2 + (log(2.0 / 1.5) / 2 / NINE_IN_TEN) ** 2))
    backward = SECOND_ON_HOPPER.over(CUTLASS).over(BACKWARD)
    assert times["efficient_attention_backward"].seconds == pytest.approx(1e-3 * backward.middle)
    assert times["cudnn_attention_backward"].seconds == pytest.approx(1e-3 * 73 / 63)


def test_deriving_twice_changes_nothing_and_a_sweep_of_an_unknown_kernel_derives_nothing() -> None:
    once = derive_attention(make_device("a100-sxm-80gb"))
    assert derive_attention(once) == once
    unknown = make_device("b200")
    assert derive_attention(unknown) is unknown


def test_the_table_that_comes_with_perfkit_has_what_is_derived() -> None:
    devices = msgspec.json.decode(PACKAGED.read_bytes(), type=PackagedDevices).devices
    for learned in devices:
        names = [program.name for program in derive_attention(learned).programs]
        assert names == [program.name for program in learned.programs]
