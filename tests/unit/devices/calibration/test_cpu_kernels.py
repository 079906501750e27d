"""Choosing what to measure on a CPU, and one tiny real calibration."""

import re

import pytest
import torch
from msgspec.structs import replace

from perfkit.devices.calibration import cpu_kernels, triads
from perfkit.devices.calibration.kernel_timing import CalibrationEffort, make_wall_timer, run_kernels
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, Confidence
from tests.fixtures.rank_traces import ceiling


@pytest.fixture(autouse=True)
def _threads_as_before() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_candidates_are_the_fastest_size_and_the_smallest_near_it() -> None:
    assert cpu_kernels.select_sizes({256: 80.0, 512: 91.0, 1024: 100.0, 2048: 95.0}) == [512, 1024]
    assert cpu_kernels.select_sizes({256: 100.0, 512: 99.0}) == [256]


def test_a_16_bit_dtype_without_kernels_of_its_own_is_left_out_with_a_note() -> None:
    rates = {"fp32": 100.0, "bf16": 12.5, "fp16": 12.4, "fp64": 1.0}
    kept, notes = cpu_kernels.select_native_dtypes(("fp32", "bf16", "fp16", "fp64"), rates.__getitem__)
    assert kept == ["fp32", "bf16", "fp64"]
    assert [(note.id, note.figures["dtype"], note.figures["share"]) for note in notes] == [
        ("ceilings.slow_dtype", "fp16", pytest.approx(0.124))
    ]


def measured(level: CeilingLevel, dtype: str | None, value: float, threads: int) -> Ceiling:
    return ceiling(level, dtype, value, kind=CeilingKind.MEASURED, threads=threads)


def test_vector_ceilings_are_the_fp32_and_fp64_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    products = [measured(CeilingLevel.MATRIX, dtype, 5.0, threads=2) for dtype in ("fp32", "bf16", "fp64")]
    found, notes = cpu_kernels.derive_vector_ceilings(products)
    assert [(c.level, c.dtype, c.value, c.threads) for c in found] == [
        (CeilingLevel.VECTOR, "fp32", 5.0, 2),
        (CeilingLevel.VECTOR, "fp64", 5.0, 2),
    ]
    assert notes == []
    assert "FMA" in found[0].source


def test_no_vector_ceiling_where_a_coprocessor_may_run_fp32_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    found, notes = cpu_kernels.derive_vector_ceilings([])
    assert found == []
    assert [note.id for note in notes] == ["ceilings.no_vector"]


def test_more_threads_that_measure_slower_are_left_out_beyond_the_tolerance() -> None:
    figures = [
        measured(CeilingLevel.MATRIX, "fp32", 200e9, threads=1),
        measured(CeilingLevel.MATRIX, "bf16", 1.6e12, threads=1),
        measured(CeilingLevel.MATRIX, "fp32", 67.5e9, threads=2),
        measured(CeilingLevel.MATRIX, "bf16", 1.55e12, threads=2),
    ]
    kept, notes = cpu_kernels.filter_plausible(figures)
    assert kept == [figures[0], figures[1], figures[3]]
    (note,) = notes
    assert note.id == "ceilings.implausible"
    assert all(part in note.text for part in ("fp32 matrix", "2 threads", "67.5 GFLOP/s", "1 thread"))


def test_a_cache_slower_than_dram_is_left_out_with_a_note() -> None:
    figures = [
        measured(CeilingLevel.L2, None, 6e8, threads=2),
        measured(CeilingLevel.L3, None, 5e10, threads=2),
        measured(CeilingLevel.MEMORY, None, 3e10, threads=2),
        measured(CeilingLevel.L2, None, 1e10, threads=1),
    ]
    kept, notes = cpu_kernels.filter_plausible(figures)
    assert [replace(each, disturbance="") for each in kept] == figures[
        1:
    ]  # with one thread there is no DRAM figure to compare with
    assert [(note.id, note.figures) for note in notes] == [("ceilings.implausible", {"threads": 2})]
    assert "DRAM" in notes[0].text


def test_a_real_product_and_a_real_triad_give_finite_rates() -> None:
    kernels = [cpu_kernels._build_product("fp32", 64, 1), triads._build_triad(CeilingLevel.L2, 2**18, 1)]
    effort = CalibrationEffort(repeats=2, windows=5, budget_s=0.05, quantile=0.99)
    found = run_kernels(
        kernels, {1: cpu_kernels._build_product("fp32", 64, 1)}, effort, make_wall_timer(), lambda line: None
    )
    assert [kernel.unit for kernel in found.kernels] == ["FLOP/s", "B/s"]
    assert all(repeat.rate > 0 and repeat.windows == 5 for kernel in found.kernels for repeat in kernel.repeats)


def test_a_busy_machine_makes_every_figure_doubtful() -> None:
    sure = ceiling(CeilingLevel.L2, None, 1.0, kind=CeilingKind.MEASURED, confidence=Confidence.HIGH)
    assert cpu_kernels.reduce_confidence(sure, 0.0, 0.09).confidence == Confidence.HIGH
    assert cpu_kernels.reduce_confidence(sure, None, None).confidence == Confidence.HIGH
    assert cpu_kernels.reduce_confidence(sure, 0.0, 0.11).confidence == Confidence.LOW
    assert cpu_kernels.reduce_confidence(sure, 0.11, None).confidence == Confidence.LOW
    assert cpu_kernels.reduce_confidence(sure, 0.11, None).disturbance == ""  # the host was busy, its repeats agree


def test_what_was_measured_beside_a_doubtful_figure_that_cannot_be_true_was_disturbed() -> None:
    alone, fast = (
        measured(CeilingLevel.MATRIX, "bf16", 9e11, threads=1),
        measured(CeilingLevel.MATRIX, "fp32", 3e11, threads=2),
    )
    slower = measured(CeilingLevel.MATRIX, "bf16", 2e11, threads=2)
    sure, _ = cpu_kernels.filter_plausible([alone, fast, replace(slower, confidence=Confidence.HIGH)])
    assert [each.disturbance for each in sure] == ["", ""]  # two threads of one core, perhaps
    doubtful, _ = cpu_kernels.filter_plausible([alone, fast, replace(slower, confidence=Confidence.LOW)])
    assert [bool(each.disturbance) for each in doubtful] == [False, True]


def test_what_does_not_repeat_on_a_busy_host_was_disturbed() -> None:
    unsteady = replace(measured(CeilingLevel.MATRIX, "fp32", 1e11, threads=1), confidence=Confidence.LOW)
    assert cpu_kernels.reduce_confidence(unsteady, 0.0, 0.09).disturbance == ""
    assert re.search(r"35(\.0)? %", cpu_kernels.reduce_confidence(unsteady, 0.35, 0.2).disturbance)
