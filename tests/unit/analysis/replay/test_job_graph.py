"""Ranks replayed together: what one of them waits for at a collective comes from the others."""

from pathlib import Path

import pytest

from perfkit.analysis.replay.graph_changes import apply_what_if, copy_unmodified
from perfkit.analysis.replay.replay import ReplayResult, simulate_what_if
from perfkit.analysis.replay.what_if_syntax import parse_what_if
from tests.fixtures.synthetic_machine import changes
from tests.fixtures.synthetic_machine.machine import run, span_ns
from tests.fixtures.synthetic_machine.program import Instruction, Program, Work
from tests.fixtures.synthetic_machine.replayed import job_of_ranks, job_span_ns, replayed_ranks

SHORT_NS, LONG_NS, ALONE_NS = 100_000, 300_000, 20_000


def _op(work: Work) -> Instruction:
    return Instruction("op", before=5_000, after=2_000, work=[work])


def _rank(ns: int) -> list[Instruction]:
    """Products, and after each ten of them a collective that the next ones wait for."""
    made = []
    for number in range(8):
        made += [_op(Work(0, "gemm", ns, 2_000, 1_000)) for _ in range(10)]
        made.append(_op(Work(0, "collective", ALONE_NS, 2_000, 1_000, meeting=number)))
    return [*made, Instruction("sync", stream=-1)]


def _program() -> Program:
    return Program([[_rank(SHORT_NS)], [_rank(LONG_NS)]])


def _span(ranks: list[ReplayResult], text: str = "") -> float:
    new = [
        apply_what_if(each.graph, each.work, parse_what_if(text)) if text else copy_unmodified(each.graph)
        for each in ranks
    ]
    return job_span_ns(job_of_ranks(ranks), new)


@pytest.mark.parametrize("ahead_ns", [0, 5_000_000_000, -7_000_000])
def test_a_collective_ends_when_the_last_rank_has_come(ahead_ns: int, tmp_path: Path) -> None:
    made = _program()
    ranks = replayed_ranks(made, tmp_path, ahead_ns=ahead_ns)
    assert _span(ranks) == pytest.approx(span_ns(run(made)), rel=0.001)
    for text, change in (("comm=0", changes.communication_free), ("kernels=0.5", changes.kernels(0.5))):
        assert _span(ranks, text) == pytest.approx(span_ns(run(change(made))), rel=0.005)


def test_alone_a_rank_takes_its_wait_for_communication(tmp_path: Path) -> None:
    made = _program()
    first = replayed_ranks(made, tmp_path, only=1)[0]
    true = 1 - span_ns(run(changes.communication_free(made))) / span_ns(run(made))
    assert true < 0.01
    assert (simulate_what_if(first, "comm=0").share or 0.0) > 0.5


def test_each_rank_has_its_own_times(tmp_path: Path) -> None:
    ranks = replayed_ranks(_program(), tmp_path)
    job = job_of_ranks(ranks)
    assert len(job.kernel) == 2 * 8
    assert job.alone_ns == pytest.approx(ALONE_NS)
    for rank, (happens, ends) in zip(
        ranks, job.simulate_ranks([copy_unmodified(each.graph) for each in ranks]), strict=True
    ):
        assert happens == pytest.approx(rank.graph.at_ns, abs=3_000)
        assert ends == pytest.approx(rank.graph.at_ns + rank.graph.duration_ns, abs=3_000)
