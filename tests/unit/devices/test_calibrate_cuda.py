"""What a GPU is measured with, decided from its description alone; the measuring itself needs hardware."""

import pytest
import torch

from perfkit.devices import calibrate_cuda
from perfkit.devices.ceiling import Ceiling, Confidence, Kind, Level
from perfkit.errors import UnavailableError


def device(capability: tuple[int, int], *, rocm: bool = False, busy: str | None = "") -> calibrate_cuda.Device:
    return calibrate_cuda.Device(
        name="some GPU",
        capability=capability,
        rocm=rocm,
        l2_bytes=50 * 2**20,
        free_bytes=80 * 2**30,
        flush=torch.empty(0),
        busy=busy,
    )


def levels(found: calibrate_cuda.Device) -> dict[str, str]:
    kernels, _, _ = calibrate_cuda.kernels(found, short=True)
    return {kernel.dtype: kernel.level for kernel in kernels if kernel.dtype is not None}


def test_hopper_has_fp8_and_an_fp64_matrix_unit_and_runs_fp32_on_the_vector_unit() -> None:
    assert levels(device((9, 0))) == {
        "fp16": "matrix",
        "bf16": "matrix",
        "tf32": "matrix",
        "fp32": "vector",
        "fp64": "matrix",
        "int8": "matrix",
        "fp8": "matrix",
    }


def test_volta_has_fp16_only_and_says_why() -> None:
    assert levels(device((7, 0))) == {"fp16": "matrix", "fp32": "vector", "fp64": "vector"}
    _, _, notes = calibrate_cuda.kernels(device((7, 0)), short=True)
    assert "bf16 products are not measured: no bf16 matrix units before compute capability 8.0" in notes


def test_geforce_runs_fp64_on_the_vector_unit() -> None:
    assert levels(device((8, 9)))["fp64"] == "vector"


def test_instinct_has_matrix_units_for_fp32() -> None:
    assert levels(device((9, 4), rocm=True)) == {
        "fp16": "matrix",
        "bf16": "matrix",
        "fp32": "matrix",
        "fp64": "matrix",
    }


def test_memory_l2_and_both_directions_of_the_link_are_measured() -> None:
    kernels, canaries, _ = calibrate_cuda.kernels(device((9, 0)), short=True)
    bandwidths = [kernel.level for kernel in kernels if kernel.dtype is None]
    assert bandwidths == [Level.MEMORY, Level.MEMORY, Level.L2, Level.HOST_LINK, Level.HOST_LINK]
    assert canaries[None].dtype == "fp16"


@pytest.mark.parametrize(
    ("busy", "note", "confidence"),
    [
        ("", None, Confidence.HIGH),
        ("2 processes have it open", "not idle: 2 processes have it open", Confidence.LOW),
        (None, "whether the device was idle is not known", Confidence.HIGH),
    ],
)
def test_a_busy_device_lowers_confidence(busy: str | None, note: str | None, confidence: Confidence) -> None:
    found = device((9, 0), busy=busy)
    _, _, notes = calibrate_cuda.kernels(found, short=True)
    assert (note is None and "idle" not in " ".join(notes)) or any(note in line for line in notes if note)
    ceiling = Ceiling(
        level=Level.MEMORY,
        dtype=None,
        value=1.0,
        unit="B/s",
        kind=Kind.MEASURED,
        source="copy",
        confidence=Confidence.HIGH,
    )
    assert calibrate_cuda.downgraded(ceiling, found).confidence == confidence


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_the_reason_is_given() -> None:
    with pytest.raises(UnavailableError, match="no CUDA device"):
        calibrate_cuda.open_device()
