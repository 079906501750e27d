"""The replay of a trace file, as an analysis holds it."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.replay.what_if import what_if
from perfkit.core.errors import UsageError
from tests.fixtures.synthetic_machine.kineto import write
from tests.fixtures.synthetic_machine.machine import run
from tests.fixtures.synthetic_machine.program import Instruction, Program, Work


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    ops = [
        Instruction("op", before=5_000, after=2_000, work=[Work(0, "gemm", 100_000, 2_000, 1_000)]) for _ in range(50)
    ]
    return write(run(Program([[ops]]))[0], tmp_path / "trace.json")


def test_an_analysis_tells_the_replay_error_and_what_was_asked_for(trace: Path) -> None:
    analysis = analyze_traces(str(trace), what_ifs=["kernels=0.5", "host=0.5"])
    (rank,) = analysis.traces
    assert rank.replay is not None
    assert abs(rank.replay.error) < 0.001
    halved, host = rank.what_ifs
    assert what_if(analysis, "kernels=0.5") == (halved,)
    assert halved.share == pytest.approx(0.49, abs=0.01)
    assert halved.summed_s == pytest.approx(50 * 50e-6)
    assert host.share == pytest.approx(0.0, abs=0.01)
    assert [entry.how for entry in analysis.provenance if entry.figure == "replay"] == ["simulated"]


def test_a_change_that_cannot_be_read_is_told_before_the_trace_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="gemm=fast"):
        analyze_traces(str(tmp_path / "none.json"), what_ifs=["gemm=fast"])
