"""Traces of two ranks over NCCL 2.28 on an H200 (tests/fixtures/recorded/README.md)."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.trace_analysis import analyze_traces

H200 = Path(__file__).parents[3] / "fixtures" / "recorded" / "h200"
MIB = 2**20


@pytest.mark.parametrize(("rank", "message"), [(0, "send"), (1, "receive")])
def test_every_collective_of_nccl_is_known_with_its_message(rank: int, message: str) -> None:
    """Each sums 4 MiB, gathers them to 8, scatters sums of those, exchanges and sends 4, three times."""
    (trace,) = analyze_traces([str(H200 / f"nccl_rank{rank}.json.gz")]).traces
    assert trace.coverage.linked_s == trace.coverage.kernel_s > 0
    assert {row.kind: row.message_bytes for row in trace.collectives} == {
        "all-reduce": 4 * MIB,
        "all-gather": 8 * MIB,
        "reduce-scatter": 8 * MIB,
        "all-to-all": 4 * MIB,
        message: 4 * MIB,
    }
    assert {row.all_calls for row in trace.collectives} == {3}
    assert {(row.group, row.group_size) for row in trace.collectives} == {("default_pg", 2)}
