"""A cache of ceilings that were measured on a busy machine: `perfkit bench` mends it, and no share is above 100 %."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel, Confidence, DeviceCeilings
from perfkit.devices.machine.fingerprint import build_fingerprint
from perfkit.devices.machine.machine import read_cpu_model
from tests.conftest import TINY, CommandLine
from tests.fixtures.rank_traces import ceiling

KEY = build_fingerprint("cpu", "")
BENCH = ("--device", "cpu", "-t", "ckpt", *TINY, "--batch-size", "4", "--quiet")
LOW = {  # about 1 % of what a core of these years does
    (CeilingLevel.MATRIX, "fp32"): 1e9,
    (CeilingLevel.VECTOR, "fp32"): 1e9,
    (CeilingLevel.MEMORY, None): 1e8,
    (CeilingLevel.L2, None): 1e8,
}


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line on a machine whose ceilings of one thread were measured far too low, as it seemed with care."""
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path / "cache"))
    made = (ceiling(level, dtype, value, kind=CeilingKind.MEASURED, threads=1) for (level, dtype), value in LOW.items())
    measured = DeviceCeilings(
        device="cpu",
        device_name=read_cpu_model(),
        fingerprint=KEY,
        measured_at="2026-01-01T12:00:00+00:00",
        ceilings=tuple(replace(each, spread=0.01, confidence=Confidence.HIGH) for each in made),
    )
    ceilings_cache.store_calibration(measured, [], full=True)
    return CommandLine(tmp_path, tmp_path / "cache")


def shares(told: Any) -> Iterator[float]:
    """All shares of a ceiling in a report's data."""
    if isinstance(told, list):
        for each in told:
            yield from shares(each)
    elif isinstance(told, dict):
        for name, value in told.items():
            if name == "efficiency" and value is not None:
                yield value
            elif name in ("mfu", "hfu") and isinstance(value, dict) and value["type"] == "known":
                yield value["value"]
            else:
                yield from shares(value)


def report_of(perfkit: CommandLine) -> dict[str, Any]:
    return json.loads((perfkit.folder / "suite/report.json").read_bytes())


def fp32(known: DeviceCeilings) -> tuple[float, str]:
    (found,) = (each for each in known.ceilings if (each.level, each.dtype) == (CeilingLevel.MATRIX, "fp32"))
    return found.value, found.measured_at[:10]


@pytest.mark.nightly
def test_a_bench_measures_a_refuted_ceiling_again_and_its_folder_tells_the_same(busy: CommandLine) -> None:
    measuring = [argument for argument in BENCH if argument != "--no-calibrate"]
    done = busy("bench", *measuring, "--out", "suite")
    assert done.returncode == 0, done.stderr
    kept = ceilings_cache.load_ceilings(KEY)
    assert kept is not None
    value, day = fp32(kept.measured)
    assert value > 2 * LOW[CeilingLevel.MATRIX, "fp32"]
    assert day > "2026-01-01"
    assert len(kept.calibrations) == 2
    first = report_of(busy)
    assert first["variants"][0]["mfu"]["type"] == "known"
    assert not any(each["exceeded_by"] for each in first["ceilings"]["ceilings"])
    assert (found := list(shares(first)))
    assert max(found) <= 1
    busy.environment["PERFKIT_CACHE"] = str(busy.folder / "none")  # the folder alone
    assert busy("report", "suite", "--quiet").returncode == 0
    assert report_of(busy)["variants"] == first["variants"]


@pytest.mark.nightly
def test_without_calibration_the_shares_are_not_known_and_the_next_command_measures(busy: CommandLine) -> None:
    done = busy("bench", *BENCH, "--out", "suite")
    assert done.returncode == 0, done.stderr
    report = report_of(busy)
    for variant in report["variants"]:
        assert variant["mfu"]["type"] == "unknown"
        assert "1.00 GFLOP/s" in variant["mfu"]["reason"]
        assert "`perfkit calibrate --device cpu --threads 1 --force`" in variant["mfu"]["reason"]
    assert all(share <= 1 for share in shares(report))
    (exceeded,) = (each for each in report["findings"] if each["id"] == "limit.exceeded_ceilings")
    assert "fp32" in exceeded["title"]
    kept = ceilings_cache.load_ceilings(KEY)
    assert kept is not None
    assert fp32(kept.measured) == (LOW[CeilingLevel.MATRIX, "fp32"], "2026-01-01")
    assert kept.list_doubtful_threads() == {1}
