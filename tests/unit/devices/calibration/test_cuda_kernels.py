"""A whole CUDA calibration on a fake device: what raises is a note, and everything else is measured."""

import gc
from types import SimpleNamespace

import pytest
import torch

from perfkit.core.errors import UnavailableError
from perfkit.devices.calibration import cuda_bandwidths, cuda_kernels, cuda_products
from perfkit.devices.calibration.calibrate import calibrate_cuda as calibrate
from perfkit.devices.calibration.gpu_usage import GpuUse
from perfkit.devices.ceilings.ceiling import CeilingLevel, Confidence, DeviceCeilings
from perfkit.devices.machine import fp32_precision
from tests.fixtures.fake_cuda import GIB, FakeTorch
from tests.fixtures.figures import list_figures

HOPPER = {
    "fp16": 700e12,
    "bf16": 690e12,
    "tf32": 350e12,
    "fp32": 50e12,
    "fp64": 55e12,
    "int8": 1300e12,
    "fp8": 1350e12,
}


def installed(fake: FakeTorch, monkeypatch: pytest.MonkeyPatch, use: GpuUse = GpuUse()) -> FakeTorch:  # noqa: B008
    for module in (cuda_kernels, cuda_products, cuda_bandwidths):
        monkeypatch.setattr(module, "torch", fake)
    monkeypatch.setattr(fp32_precision, "_BACKENDS", fake.backends)
    monkeypatch.setattr(cuda_kernels, "time", SimpleNamespace(monotonic=lambda: fake.now))
    monkeypatch.setattr(cuda_kernels, "find_gpu_use", lambda uuid: use)
    return fake


def calibrated(fake: FakeTorch, *, short: bool = True, name: str = "") -> DeviceCeilings:
    found, repeats = calibrate(short=short, progress=lambda line: None, device_name=name)
    effort = cuda_kernels.choose_effort(short=short)
    assert all(len(kernel.repeats) == effort.repeats for kernel in repeats)  # what is kept is whole
    assert all(any(kernel.level == c.level and kernel.dtype == c.dtype for kernel in repeats) for c in found.ceilings)
    return found


def value(found: DeviceCeilings, level: CeilingLevel, dtype: str | None = None) -> float:
    ceiling = found.find(level, dtype)
    return ceiling.value


def test_every_ceiling_of_a_device_on_which_everything_works(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER), monkeypatch)
    found = calibrated(fake)
    assert found.device_name == "NVIDIA Fake"
    for dtype, rate in HOPPER.items():
        level = CeilingLevel.VECTOR if dtype == "fp32" else CeilingLevel.MATRIX
        assert value(found, level, dtype) == pytest.approx(rate)
    assert value(found, CeilingLevel.MEMORY) == pytest.approx(3e12)
    assert value(found, CeilingLevel.L2) == pytest.approx(3e12)
    assert value(found, CeilingLevel.HOST_LINK) == pytest.approx(50e9)
    assert not {note.id for note in found.notes} & {"ceilings.not_measured", "ceilings.kernel_failed"}


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`\nException raised from x"),
        NotImplementedError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`"),
        torch.OutOfMemoryError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`"),
        ValueError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_dtype_that_raises_is_a_note_and_all_others_are_measured(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calibrated(installed(FakeTorch(HOPPER, fails={"int8": (1, error)}), monkeypatch))
    assert found.find(CeilingLevel.MATRIX, "int8") is None
    (note,) = (note for note in found.notes if note.id == "ceilings.not_measured")
    assert note.figures == {"dtype": "int8"}
    assert "CUBLAS_STATUS_NOT_SUPPORTED" in note.text
    assert {c.dtype for c in found.ceilings} == {*HOPPER, None} - {"int8"}
    assert value(found, CeilingLevel.MATRIX, "fp8") == pytest.approx(HOPPER["fp8"])


def test_a_dtype_that_raises_at_larger_sizes_keeps_the_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    found = calibrated(installed(FakeTorch(HOPPER, fails={"tf32": (8192, error)}), monkeypatch))
    tf32 = found.find(CeilingLevel.MATRIX, "tf32")
    assert "n=4096" in tf32.source
    (note,) = (note.text for note in found.notes if note.id == "ceilings.kernel_failed")
    assert ["tf32" in note, "n=8192" in note, "2.00 GiB" in note] == [True] * 3


def test_the_canary_is_the_first_product_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER, fails={"fp16": (1, RuntimeError("no kernel"))}), monkeypatch)
    with cuda_kernels.open_device() as device:
        _, canary, _ = cuda_kernels.choose_kernels(device, cuda_kernels.make_event_timer(device), short=True)
    assert canary.label.startswith("bf16 ")
    assert canary.label.endswith(" n=4096")
    assert calibrated(fake).find(CeilingLevel.MATRIX, "bf16") is not None


def test_where_no_product_works_the_reasons_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("no kernel image is available for execution on the device")
    installed(FakeTorch(HOPPER, fails=dict.fromkeys(HOPPER, (1, error))), monkeypatch)
    with pytest.raises(UnavailableError, match="16"):
        calibrate(short=True, progress=lambda line: None)


def test_fp8_sums_as_real_programs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER), monkeypatch)
    calibrated(fake)
    assert fake.fast_accum
    assert all(fake.fast_accum)


def test_pinned_memory_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER), monkeypatch)
    calibrated(fake)
    assert fake.pinned == 1


def test_memory_that_cannot_be_pinned_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER), monkeypatch)
    fake.no_pinning = RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")
    found = calibrated(fake)
    assert found.find(CeilingLevel.HOST_LINK) is None
    (note,) = (note.text for note in found.notes if note.id == "ceilings.not_measured")
    assert ["256 MiB" in note, "CUDA error" in note] == [True] * 2
    assert found.find(CeilingLevel.MEMORY) is not None


@pytest.mark.parametrize("short", [True, False])
def test_slow_fp64_is_measured_at_sizes_that_the_datasheets_peak_allows(
    short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {**HOPPER, "fp16": 160e12, "bf16": 160e12, "tf32": 80e12, "fp32": 80e12, "fp64": 1.28e12}
    ada = FakeTorch(rates, names=("NVIDIA GeForce RTX 4090",), capability=(8, 9), units=128)
    fake = installed(ada, monkeypatch)
    found = calibrated(fake, short=short)
    effort = cuda_kernels.choose_effort(short=short)
    assert value(found, CeilingLevel.VECTOR, "fp64") == pytest.approx(1.28e12)
    assert fake.longest["fp64"] <= 1.02 * effort.budget_s / effort.min_windows  # the peak is 1.29e12
    smaller = [note.figures["dtype"] for note in found.notes if note.id == "ceilings.smaller_sizes"]
    assert "fp64" in smaller
    assert "bf16" not in smaller


def test_an_unknown_devices_sizes_follow_from_its_own_small_product(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch({**HOPPER, "fp64": 0.2e12, "fp32": 2e12}), monkeypatch)
    found = calibrated(fake)
    assert value(found, CeilingLevel.MATRIX, "fp64") == pytest.approx(0.2e12)
    assert max(fake.longest["fp64"], fake.longest["fp32"]) <= 0.02
    [note] = [note for note in found.notes if note.figures.get("dtype") == "fp64"]
    assert (note.id, note.figures["size"]) == ("ceilings.smaller_sizes", 1024)
    assert list_figures(note.text) == ["1024", "20.0 ms"]


def test_sizes_within_the_limits() -> None:
    limits = cuda_products.ProductLimits(0.1, 80 * GIB)
    assert cuda_products.filter_sizes((4096, 8192), 1e15, limits) == [4096, 8192]
    assert cuda_products.filter_sizes((4096, 8192), 2e12, limits) == [4096]
    assert cuda_products.filter_sizes((4096, 8192), 1e11, limits) == [1536]
    assert cuda_products.filter_sizes((4096, 8192), 1e6, limits) == [512]
    assert cuda_products.filter_sizes((4096, 8192), 1e15, cuda_products.ProductLimits(0.1, GIB)) == [3328]


def test_a_small_device_is_measured_within_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER, memory_bytes=2 * GIB), monkeypatch)
    found = calibrated(fake)
    assert {c.dtype for c in found.ceilings} == {*HOPPER, None}
    assert "ceilings.kernel_failed" not in [note.id for note in found.notes]


def test_nothing_is_left_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER), monkeypatch)
    calibrated(fake)
    gc.collect()
    assert fake.used == 0
    assert fake.emptied
    assert fake.precision == "none"
    # The largest kernel beside the flush buffer, never two of them: three arrays of the triad.
    assert fake.peak <= 3 * GIB + 4 * 50 * 2**20


def test_the_precision_of_fp32_products_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER), monkeypatch)
    fake.backends.cuda.matmul.fp32_precision = "tf32"
    calibrated(fake)
    assert fake.precision == "tf32"


def test_the_named_one_of_several_devices_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = installed(FakeTorch(HOPPER, names=("NVIDIA T4", "NVIDIA H100 80GB HBM3")), monkeypatch)
    assert calibrated(fake, name="NVIDIA H100 80GB HBM3").device_name == "NVIDIA H100 80GB HBM3"
    assert calibrated(fake).device_name == "NVIDIA T4"
    assert fake.current == 0
    with pytest.raises(UnavailableError, match=r"CUDA.*'NVIDIA A100'.*NVIDIA.*100"):
        calibrate(short=True, progress=lambda line: None, device_name="NVIDIA A100")


def test_a_single_device_is_meant_whatever_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    fake = installed(FakeTorch(HOPPER, names=(instance,)), monkeypatch)
    assert calibrated(fake, name="NVIDIA A100-SXM4-40GB").device_name == instance


@pytest.mark.parametrize(
    ("use", "note", "confidence"),
    [
        (GpuUse(), None, Confidence.HIGH),
        (GpuUse(busy="2 processes"), "2 processes", Confidence.LOW),
        (GpuUse(unknown="NVML"), "NVML", Confidence.HIGH),
    ],
)
def test_others_on_the_device_lower_confidence(
    use: GpuUse, note: str | None, confidence: Confidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calibrated(installed(FakeTorch(HOPPER), monkeypatch, use))
    assert {ceiling.confidence for ceiling in found.ceilings} == {confidence}
    load = [line.text for line in found.notes if line.id in ("ceilings.busy_device", "ceilings.unknown_load")]
    assert [note is not None and note in line for line in load] == ([True] if note else [])


def levels(capability: tuple[int, int], *, rocm: bool = False) -> dict[str, str]:
    return {each.dtype: each.level for each in cuda_products.list_products(capability, rocm=rocm) if not each.why_not}


def test_hopper_has_fp8_and_an_fp64_matrix_unit_and_runs_fp32_on_the_vector_unit() -> None:
    assert levels((9, 0)) == {dtype: "vector" if dtype == "fp32" else "matrix" for dtype in HOPPER}


def test_volta_has_fp16_only_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert levels((7, 0)) == {"fp16": "matrix", "fp32": "vector", "fp64": "vector"}
    found = calibrated(installed(FakeTorch(HOPPER, capability=(7, 0)), monkeypatch))
    (note,) = (note for note in found.notes if note.figures.get("dtype") == "bf16")
    assert (note.id, "8.0" in note.text) == ("ceilings.not_measured", True)


def test_geforce_runs_fp64_on_the_vector_unit() -> None:
    assert levels((8, 9))["fp64"] == "vector"


def test_instinct_has_matrix_units_for_fp32() -> None:
    assert levels((9, 4), rocm=True) == dict.fromkeys(("fp16", "bf16", "fp32", "fp64"), "matrix")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_the_reason_is_given() -> None:
    with pytest.raises(UnavailableError, match="no CUDA device"), cuda_kernels.open_device():
        pass
