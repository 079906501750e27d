"""Choosing what to measure on a CPU, and one tiny real calibration."""

import itertools

import pytest
import torch

from perfkit.devices import calibrate_cpu
from perfkit.devices.ceiling import Ceiling, Confidence, Kind, Level
from perfkit.devices.machine import Cache
from perfkit.devices.measure import Plan, run, wall_timer

MIB = 2**20


@pytest.fixture(autouse=True)
def _threads_as_before() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_candidates_are_the_fastest_size_and_the_smallest_near_it() -> None:
    assert calibrate_cpu.candidates({256: 80.0, 512: 91.0, 1024: 100.0, 2048: 95.0}) == [512, 1024]
    assert calibrate_cpu.candidates({256: 100.0, 512: 99.0}) == [256]


def test_working_sets_lie_between_the_caches() -> None:
    caches = {1: Cache(48 * 1024, 2), 2: Cache(2 * MIB, 2), 3: Cache(480 * MIB, 1)}
    assert calibrate_cpu.cache_working_sets(caches, 1) == {Level.L2: 1 * MIB, Level.L3: 8 * MIB}
    assert calibrate_cpu.cache_working_sets(caches, 2) == {Level.L2: 2 * MIB, Level.L3: 16 * MIB}


def test_l3_grows_with_the_instances_that_threads_reach() -> None:
    caches = {2: Cache(1 * MIB, 16), 3: Cache(32 * MIB, 2)}
    assert calibrate_cpu.cache_working_sets(caches, 1)[Level.L3] == 4 * MIB
    assert calibrate_cpu.cache_working_sets(caches, 16)[Level.L3] == 32 * MIB  # half of both instances


def test_an_l3_hardly_larger_than_l2_is_left_out() -> None:
    assert Level.L3 not in calibrate_cpu.cache_working_sets({2: Cache(2 * MIB, 32), 3: Cache(60 * MIB, 1)}, 32)


def test_unknown_caches_are_left_out() -> None:
    assert calibrate_cpu.cache_working_sets({}, 4) == {}


@pytest.mark.parametrize(
    ("cached", "available", "expected"),
    [
        (32 * MIB, 64 * 1024 * MIB, 320 * MIB),  # ten times the cache
        (480 * MIB, 64 * 1024 * MIB, 1024 * MIB),  # the bound
        (480 * MIB, 1024 * MIB, 256 * MIB),  # a quarter of the free memory
        (0, 64 * 1024 * MIB, 256 * MIB),  # cache unknown
    ],
)
def test_dram_buffer(cached: int, available: int, expected: int) -> None:
    assert calibrate_cpu.dram_buffer(cached, available, 1024 * MIB) == expected


def test_vector_ceilings_are_the_fp32_and_fp64_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")

    def matrix(dtype: str) -> Ceiling:
        return Ceiling(
            level=Level.MATRIX,
            dtype=dtype,
            value=5.0,
            unit="FLOP/s",
            kind=Kind.MEASURED,
            source="mm",
            threads=2,
            spread=0.01,
            confidence=Confidence.HIGH,
        )

    found, notes = calibrate_cpu.derived([matrix("fp32"), matrix("bf16"), matrix("fp64")])
    assert [(c.level, c.dtype, c.value, c.threads) for c in found] == [
        (Level.VECTOR, "fp32", 5.0, 2),
        (Level.VECTOR, "fp64", 5.0, 2),
    ]
    assert notes == []
    assert "FMA" in found[0].source


def test_no_vector_ceiling_where_a_coprocessor_may_run_fp32_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    found, notes = calibrate_cpu.derived([])
    assert found == []
    assert "coprocessor" in notes[0]


def test_a_cache_slower_than_dram_is_left_out_with_a_note() -> None:
    def triad(level: Level, value: float, threads: int) -> Ceiling:
        return Ceiling(
            level=level, dtype=None, value=value, unit="B/s", kind=Kind.MEASURED, source="triad", threads=threads
        )

    measured = [
        triad(Level.L2, 6e8, 2),
        triad(Level.L3, 5e10, 2),
        triad(Level.MEMORY, 3e10, 2),
        triad(Level.L2, 1e10, 1),
    ]
    kept, notes = calibrate_cpu.plausible(measured)
    assert kept == measured[1:]  # with one thread there is no DRAM figure to compare with
    assert notes == [
        "L2 with 2 threads is left out: it measured 0.600 GB/s, less than DRAM, so the machine was too busy to tell"
    ]


def test_dram_slices_rotate_through_the_whole_buffer() -> None:
    a, b, c = (torch.full((12,), value) for value in (0.0, 1.0, 4.0))
    call = calibrate_cpu._rotating(a, b, c, part=4)
    for done in (4, 8, 12):
        call()
        assert torch.equal(a, torch.tensor([3.0] * done + [0.0] * (12 - done)))  # 1 + 0.5 * 4
    a.zero_()
    call()
    assert a.count_nonzero() == 4  # and begins again


def test_short_calls_are_repeated_to_fill_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(calibrate_cpu, "wall_timer", lambda: lambda call: (call(), 1e-4)[1])
    window = calibrate_cpu._filled(lambda: next(ticks), 12.0)
    assert window.amount == 36.0  # three calls of 0.1 ms fill 0.3 ms
    before = next(ticks)
    window.call()
    assert next(ticks) - before == 4


def test_a_real_product_and_a_real_triad_give_finite_rates() -> None:
    kernels = [calibrate_cpu._product("fp32", 64, 1), calibrate_cpu._triad(Level.L2, 2**18, 1)]
    plan = Plan(repeats=2, windows=5, budget_s=0.05, quantile=0.99)
    found = run(kernels, {1: calibrate_cpu._product("fp32", 64, 1)}, plan, wall_timer(), lambda line: None)
    assert [kernel.unit for kernel in found] == ["FLOP/s", "B/s"]
    assert all(repeat.rate > 0 and repeat.windows == 5 for kernel in found for repeat in kernel.repeats)
