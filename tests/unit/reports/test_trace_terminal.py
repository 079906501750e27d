import io
from pathlib import Path

from rich.console import Console

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit_reports import trace_terminal
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.sample_analysis import HOSTILE


def shown(analysis: TraceAnalysis, width: int = 100, folder: Path | None = None) -> str:
    stream = io.StringIO()
    trace_terminal.render(analysis, Console(file=stream, width=width, no_color=True), folder)
    return stream.getvalue()


def test_nothing_is_wider_than_the_terminal(traces: TraceAnalysis) -> None:
    assert max(len(line) for line in shown(traces).splitlines()) <= 100


def test_the_summary_holds_bounds_gains_ranks_changes_and_findings() -> None:
    text = " ".join(shown(sample.realistic(), folder=Path("out")).split())
    for part in (
        "Step 34.9 ms on NVIDIA H100 80GB HBM3: 40 % memory-bound",
        "memory-bound 40 %",
        "MFU: 15.8 %",
        "4.29 ms",
        "Rank 1 holds the others up",
        "-1.12 ms",
        "Attention is not fused [rank 0], up to 6.30 ms a step",
        "3 events with a negative duration",
        "rank 1's file was cut off",
        "report: out/report.html",
    ):
        assert part in text, part


def test_what_is_not_known_is_said_so() -> None:
    text = " ".join(shown(sample.unknown_device()).split())
    assert "To win: not known: no ceilings are known for the device" in text
    assert "Name the device with --device" in text


def test_names_are_not_read_as_markup() -> None:
    assert HOSTILE in " ".join(shown(sample.hostile(), width=400).split())
