"""Sampled activity of units and memory, by phase and by kernel, beside the model."""

from pathlib import Path

import pytest

from perfkit.analysis.model.launches import UnitCounters
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.analyze import analyze
from tests.fixtures.traces import kernel, launch, mark, op, write_trace

# Of an H100 SXM5 80 GB by its datasheet.
PEAK = 3.35e12
STEP, BEGIN, LONG, INTERVAL = 2000.0, 100.0, 1000.0, 100.0  # us
SIDE = 1024  # aten::add of three fp32 matrices


def sample(name: str, at: float, value: float, device: int = 0) -> dict[str, object]:
    return {"ph": "C", "name": name, "pid": f"GPU {device} Counters", "ts": at, "args": {"": value}}


def read_trace(folder: Path, read: str, write: str = "", *, device: str = "h100-sxm") -> RankTrace:
    """Two steps of an addition in a long kernel, in which 40 % of the memory's peak is read and 20 % written."""
    events: list[dict[str, object]] = []
    for number in range(2):
        at = STEP * number
        events += [
            mark(f"ProfilerStep#{number}", at, STEP),
            op("aten::add", at + 10, 20, [(SIDE, SIDE), (SIDE, SIDE)]),
            launch(number + 1, at + 15),
            kernel("add", number + 1, at + BEGIN, LONG),
            op("aten::relu", at + 40, 20),
            launch(number + 11, at + 45),
            kernel("short", number + 11, at + BEGIN + LONG + 50, 50),
        ]
    times = [INTERVAL * place for place in range(int(2 * STEP / INTERVAL))]
    busy = [BEGIN <= at % STEP < BEGIN + LONG for at in times]
    for at, runs in zip(times, busy, strict=True):
        events.append(sample("SM Active (%)", at, 90.0 if runs else 0.0))
        events.append(sample(read, at, 40.0 if runs else 0.0))
        if write:
            events.append(sample(write, at, 20.0 if runs else 0.0))
    options = {"device": device} if device else {}
    return analyze(str(write_trace(folder / "trace.json", events)), **options).traces[0]


@pytest.mark.parametrize(
    ("read", "write", "share"),
    [
        ("HBM Read (%)", "HBM Write (%)", 0.6),
        ("dram__read_throughput.avg.pct_of_peak_sustained_elapsed", "HBM Write (%)", 0.6),
        ("DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]", 0.6),
        ("DRAM BW (%)", "", 0.4),
        ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "", 0.4),
    ],
)
def test_a_long_kernel_and_its_phase(tmp_path: Path, read: str, write: str, share: float) -> None:
    trace = read_trace(tmp_path, read, write)
    phase, long = trace.unit_counters
    assert (phase.kind, phase.name, long.kind, long.name) == ("phase", "forward", "kernel", "add")
    for row in (phase, long):
        assert (row.samples, row.seconds) == (20, pytest.approx(LONG / 1e6))
        assert (row.sm_active, row.tensor_active) == (pytest.approx(0.9), None)
        assert row.memory_active == pytest.approx(share)
        assert row.measured_bytes == pytest.approx(share * PEAK * LONG / 1e6)
    assert long.modeled_bytes == pytest.approx(3 * 4 * SIDE**2)
    assert phase.modeled_bytes is None  # of the short kernel's op the shapes are not recorded


def test_the_models_error_by_class_of_ops(tmp_path: Path) -> None:
    (row,) = read_trace(tmp_path, "HBM Read (%)", "HBM Write (%)").coverage.model_error
    assert (row.quantity, row.kernels, row.seconds) == ("bytes", 2, pytest.approx(2 * LONG / 1e6))
    assert row.ratio == pytest.approx(3 * 4 * SIDE**2 / (0.6 * PEAK * LONG / 1e6))


def test_without_a_datasheet_the_activity_is_known_and_no_bytes(tmp_path: Path) -> None:
    trace = read_trace(tmp_path, "HBM Read (%)", "HBM Write (%)", device="")
    (phase,) = trace.unit_counters
    assert (phase.memory_active, phase.measured_bytes) == (pytest.approx(0.6), None)
    assert trace.coverage.model_error == ()


def test_other_counters_say_nothing_of_units(tmp_path: Path) -> None:
    assert read_trace(tmp_path, "Power (W)").unit_counters != ()  # SM activity is there in any case
    events = [mark("ProfilerStep#0", 0, 1000), sample("Power (W)", 100, 300.0), sample("Power (W)", 200, 300.0)]
    assert analyze(str(write_trace(tmp_path / "power.json", events))).traces[0].unit_counters == ()


def test_kernels_shorter_than_two_intervals_have_no_figure_of_their_own(tmp_path: Path) -> None:
    rows: tuple[UnitCounters, ...] = read_trace(tmp_path, "HBM Read (%)", "HBM Write (%)").unit_counters
    assert [row.name for row in rows if row.kind == "kernel"] == ["add"]
