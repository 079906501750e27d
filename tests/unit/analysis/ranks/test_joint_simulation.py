"""Gains of several ranks' traces: what one of them waits for comes from the others."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit_reports.subjects.trace.critical_path import build_replay_section
from tests.fixtures.synthetic_machine import changes
from tests.fixtures.synthetic_machine.kineto import write
from tests.fixtures.synthetic_machine.machine import run, span_ns
from tests.fixtures.synthetic_machine.program import Instruction, Program, Work


def _rank(ns: int) -> list[Instruction]:
    """Two steps of products, with a collective after each ten of them."""
    made: list[Instruction] = []
    for step in range(2):
        made.append(Instruction("step", number=step))
        for number in range(4):
            made += [_op(Work(0, "gemm", ns, 2_000, 1_000)) for _ in range(10)]
            made.append(_op(Work(0, "collective", 20_000, 2_000, 1_000, meeting=10 * step + number)))
        made += [Instruction("sync", stream=-1), Instruction("end", number=step)]
    return made


def _op(work: Work) -> Instruction:
    return Instruction("op", before=5_000, after=2_000, work=[work])


@pytest.fixture
def two_ranks(tmp_path: Path) -> list[str]:
    ranks = run(Program([[_rank(100_000)], [_rank(300_000)]]))
    return [str(write(rank, tmp_path / f"rank{number}.json", number, 2)) for number, rank in enumerate(ranks)]


def test_without_communication_a_rank_still_waits_for_the_slow_one(two_ranks: list[str]) -> None:
    made = Program([[_rank(100_000)], [_rank(300_000)]])
    both = analyze_traces(two_ranks, what_ifs=["comm=0"], jobs=1)
    alone = analyze_traces(two_ranks[0], what_ifs=["comm=0"], jobs=1).traces[0].what_ifs[0]
    true_ns = span_ns(run(made)) - span_ns(run(changes.communication_free(made)))
    assert (alone.gain_s or 0.0) > 10 * true_ns / 1e9
    for trace in both.traces:
        (asked,) = trace.what_ifs
        assert trace.replay is not None
        assert trace.replay.ranks == 2
        assert asked.gain_s == pytest.approx(true_ns / 1e9, rel=0.1)
        assert asked.step_gain_s == pytest.approx(true_ns / 2e9, rel=0.1)
    exposed = both.traces[0].gains
    assert exposed is not None
    assert exposed.by_finding["comm.exposed"] == pytest.approx(true_ns / 2e9, rel=0.1)
    assert "with 2 ranks" in str(build_replay_section(both))


def test_ranks_that_share_no_collective_are_simulated_apart(two_ranks: list[str], tmp_path: Path) -> None:
    other = run(Program([[[_op(Work(0, "gemm", 50_000, 2_000, 1_000)) for _ in range(40)]]]))[0]
    lone = str(write(other, tmp_path / "lone.json", 1, 2))
    for trace in analyze_traces([two_ranks[0], lone], jobs=1).traces:
        assert trace.replay is not None
        assert trace.replay.ranks == 1
