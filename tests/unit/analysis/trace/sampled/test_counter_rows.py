"""Sampled counters within the steps of a trace."""

from pathlib import Path

import pytest

from perfkit.analysis.model.launches import CounterRow
from perfkit.analysis.pipeline.analyze import analyze
from tests.fixtures.traces import kernel, launch, mark, op, write_trace


def sample(at: float, value: float, process: str = "GPU 0 Counters") -> dict[str, object]:
    return {"ph": "C", "name": "SM Active (%)", "pid": process, "ts": at, "args": {"": value}}


def read_rows(folder: Path, *samples: dict[str, object]) -> tuple[CounterRow, ...]:
    events = []
    for number in range(2):
        at = 1000.0 * number
        events += [
            mark(f"ProfilerStep#{number}", at, 1000), op("aten::mm", at + 10, 20), launch(number + 1, at + 15),
            kernel("gemm", number + 1, at + 100, 400),
        ]  # fmt: skip
    return analyze(str(write_trace(folder / "trace.json", [*events, *samples]))).traces[0].counters


def test_means_spread_and_rate(tmp_path: Path) -> None:
    (row,) = read_rows(tmp_path, *(sample(50 + 100 * place, place) for place in range(18)), sample(9000, 99))
    assert (row.name, row.device, row.samples) == ("SM Active (%)", 0, 18)
    assert row.mean == pytest.approx(8.5)
    assert (row.low, row.high) == (pytest.approx(0.85), pytest.approx(16.15))
    assert row.rate_hz == pytest.approx(10_000)
    assert row.busy_mean == pytest.approx((1 + 2 + 3 + 4 + 11 + 12 + 13 + 14) / 8)
    known = [mean for mean in row.series if mean is not None]
    assert known == sorted(known)
    assert len(known) == 18


def test_a_single_sample_of_no_device_has_no_rate(tmp_path: Path) -> None:
    (row,) = read_rows(tmp_path, sample(50, 3.0, "host"))
    assert (row.device, row.samples, row.rate_hz, row.busy_mean) == (None, 1, None, None)


def test_no_samples_within_the_steps(tmp_path: Path) -> None:
    assert read_rows(tmp_path, sample(9000, 1.0)) == ()
