"""A refuted ceiling is measured again, and the suite's folder alone then tells the same."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.record.quantity import Unknown, get_value
from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.devices.lookup import ceiling_lookup
from perfkit.devices.machine.fingerprint import build_fingerprint
from perfkit.suites.remeasure import analyze_and_remeasure
from tests.fixtures.rank_traces import ceiling
from tests.fixtures.suites import record, write_suite

KEY = build_fingerprint("cpu", "")


def known(value: float, at: str, *threads: int) -> DeviceCeilings:
    matrix = ceiling(CeilingLevel.MATRIX, "fp32", value, kind=CeilingKind.MEASURED)
    return DeviceCeilings(
        device="cpu",
        device_name="Test CPU",
        fingerprint=KEY,
        measured_at=at,
        ceilings=tuple(replace(matrix, threads=count, measured_at=at) for count in threads or (2,)),
    )


def machine_of(monkeypatch: pytest.MonkeyPatch, real: float) -> list[tuple[int, ...]]:
    """A machine that reaches `real` FLOP/s whenever it is calibrated; the threads that it was."""
    asked: list[tuple[int, ...]] = []

    def calibrate_now(_: str, threads: Sequence[int], **__: object) -> ceilings_cache.CachedCeilings:
        asked.append(tuple(threads))
        return ceilings_cache.store_calibration(known(real, "2026-02-02", *threads), [], full=False)

    monkeypatch.setattr(ceiling_lookup, "calibrate_machine", calibrate_now)
    return asked


def suite(tmp_path: Path, ceilings: DeviceCeilings) -> Path:
    """2 GFLOP in 0.1 s: 20 GFLOP/s."""
    return write_suite(tmp_path / "suite", {"baseline": [record(0.1)]}, ceilings=ceilings)


def mfu(folder: Path) -> float | None:
    return get_value(analyze_suite(folder).variants[0].mfu)


def test_a_refuted_ceiling_is_measured_again_and_the_folder_tells_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, lines = machine_of(monkeypatch, 1e11), list[str]()
    low = ceilings_cache.store_calibration(known(1e9, "2026-01-01", 1, 2), [], full=True).measured
    folder = suite(tmp_path, low)
    assert mfu(folder) is None
    mended = analyze_and_remeasure(folder, calibrate=True, progress=lines.append)
    assert asked == [(2,)]  # only the threads that were used
    assert "1.00 GFLOP/s" in lines[0]
    assert get_value(mended.variants[0].mfu) == pytest.approx(0.2)
    assert mfu(folder) == pytest.approx(0.2)
    kept = ceilings_cache.load_ceilings(KEY)
    assert kept is not None
    assert {each.threads: (each.value, each.measured_at) for each in kept.measured.ceilings} == {
        1: (1e9, "2026-01-01"),
        2: (1e11, "2026-02-02"),
    }


def test_without_calibration_it_is_kept_for_the_next_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = machine_of(monkeypatch, 1e11)
    folder = suite(tmp_path, ceilings_cache.store_calibration(known(1e9, "2026-01-01"), [], full=True).measured)
    left = analyze_and_remeasure(folder, calibrate=False)
    assert isinstance(left.variants[0].mfu, Unknown)
    assert asked == []
    ceiling_lookup.resolve_ceilings("cpu", "Test CPU", [2], calibrate=True)
    assert asked == [(2,)]


def test_what_measuring_does_not_find_stays_unknown_and_is_not_measured_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = machine_of(monkeypatch, 1.5e10)
    folder = suite(tmp_path, ceilings_cache.store_calibration(known(1e9, "2026-01-01"), [], full=True).measured)
    analysis = analyze_and_remeasure(folder, calibrate=True)
    assert isinstance(analysis.variants[0].mfu, Unknown)
    assert "15.0 GFLOP/s" in analysis.variants[0].mfu.reason
    ceiling_lookup.resolve_ceilings("cpu", "Test CPU", [2], calibrate=True)
    assert asked == [(2,)]


def test_a_calibration_of_another_day_that_was_better_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = machine_of(monkeypatch, 1e11)
    folder = suite(tmp_path, known(1e9, "2026-01-01"))
    ceilings_cache.store_calibration(known(2e11, "2026-01-31"), [], full=True)
    assert get_value(analyze_and_remeasure(folder, calibrate=True).variants[0].mfu) == pytest.approx(0.1)
    assert asked == []


def test_a_suite_of_another_machine_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = machine_of(monkeypatch, 1e11)
    folder = suite(tmp_path, replace(known(1e9, "2026-01-01"), fingerprint="elsewhere"))
    assert isinstance(analyze_and_remeasure(folder, calibrate=True).variants[0].mfu, Unknown)
    assert asked == []


def test_without_a_refuted_ceiling_nothing_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = machine_of(monkeypatch, 1e11)
    folder = suite(tmp_path, known(1e11, "2026-01-01"))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert get_value(analyze_and_remeasure(folder, calibrate=True).variants[0].mfu) == pytest.approx(0.2)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert (asked, ceilings_cache.load_ceilings(KEY)) == ([], None)
