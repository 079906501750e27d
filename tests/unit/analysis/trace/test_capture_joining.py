"""Traces of replays analysed with the captures of their graphs: what is given, what is found, what does not fit."""

import re
import sys
from pathlib import Path

import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.errors import RunFormatError, UsageError
from tests.fixtures.graph_captures import FFN, HIDDEN, KERNEL_US, LAYERS, NCCL, captures, decoder, replays, write_events
from tests.fixtures.traces import Event

SIZES = (16, 8, 4)
NODES = len(decoder(8))
STEPS = [(f"step[DECODE bs={size} toks={size}]", size, decoder(size)) for size in (8, 8, 16)]


def replay(folder: Path, rank: int = 0) -> str:
    return write_events(folder / f"server-TP-{rank}.trace.json.gz", replays(STEPS), rank=rank)


def write_captures(folder: Path, rank: int = 0, *, of: tuple[int, ...] = SIZES) -> str:
    for size in of:
        write_events(folder / f"bs_{size}_rank{rank}.json.gz", captures([("", decoder(size))]), rank=rank)
    return str(folder)


def only(*traces: str, **given: object) -> RankTrace:
    (trace,) = analyze_traces(list(traces), jobs=1, **given).traces  # type: ignore[arg-type]
    return trace


def test_without_a_capture_the_kernels_of_graphs_have_no_ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "perfkit.experiments.graph_captures.captured_graphs", None)  # not imported
    trace = only(replay(tmp_path))
    covered = trace.coverage
    assert (covered.replayed_kernels, covered.joined_kernels, covered.linked_s) == (3 * NODES, 0, 0.0)
    assert all("(--capture)" in row.reason for row in trace.graphs)
    assert any("capture" in row.reason for row in covered.uncovered)


def test_with_its_captures_all_is_known_of_them(tmp_path: Path) -> None:
    trace = only(replay(tmp_path), capture=write_captures(tmp_path / "captured"))
    covered = trace.coverage
    assert (covered.replayed_kernels, covered.joined_kernels) == (3 * NODES, 3 * NODES)
    assert covered.joined_s == covered.linked_s == covered.flops_s == covered.bytes_s == covered.kernel_s
    assert [(row.nodes, row.launches, row.joined_nodes, row.capture) for row in trace.graphs] == [
        (NODES, 2, NODES, "bs_8_rank0.json.gz"),
        (NODES, 1, NODES, "bs_16_rank0.json.gz"),
    ]
    assert trace.graphs[0].seconds == pytest.approx(2 * NODES * (KERNEL_US - 1) * 1e-6)
    products = [row for row in trace.ops if row.name == "aten::mm"]
    flops = sum((row.flops or 0.0) * len(trace.steps) for row in products)
    assert flops == pytest.approx((8 + 8 + 16) * LAYERS * 6 * HIDDEN * FFN)
    assert trace.file_info.events == 3 * (NODES + 2)


def test_collectives_have_the_size_of_what_was_captured(tmp_path: Path) -> None:
    trace = only(replay(tmp_path), capture=write_captures(tmp_path / "captured"))
    rows = {row.message_bytes: row for row in trace.collectives}
    assert rows.keys() == {2 * 8 * HIDDEN, 2 * 16 * HIDDEN}
    row = rows[2 * 8 * HIDDEN]
    assert (row.name, row.dtype, row.group_size, row.all_calls) == ("all_reduce", "BFloat16", 2, 2 * LAYERS)
    speed = 2 * 8 * HIDDEN / ((KERNEL_US - 1) * 1e-6)
    assert (row.algorithm_bandwidth, row.bus_bandwidth) == (pytest.approx(speed), pytest.approx(speed))


def recorded_collectives(events: list[Event], size: int) -> list[Event]:
    """NCCL's collectives as torch records them: on an op around the launch."""
    for event in events:
        if event["name"] == "_C_custom_ar::all_reduce":
            event["name"] = "record_param_comms"
            event["args"] |= {
                "Collective name": "allreduce", "In msg nelems": size, "Out msg nelems": size, "dtype": "BFloat16",
                "Group size": 4, "Process Group Name": "2", "Process Group Description": "tp:0",
            }  # fmt: skip
    return events


def test_what_a_capture_recorded_of_a_collective_is_that_of_its_replays(tmp_path: Path) -> None:
    nodes = decoder(8, all_reduce=NCCL)
    caught = recorded_collectives(captures([("", nodes)]), 8 * HIDDEN)
    trace = only(
        write_events(tmp_path / "replay.json.gz", replays([("", 3, nodes)])),
        capture=write_events(tmp_path / "caught.json.gz", caught),
    )
    (row,) = trace.collectives
    assert (row.group, row.group_size, row.message_bytes) == ("tp:0", 4, 2 * 8 * HIDDEN)
    assert row.bus_bandwidth == pytest.approx(2 * 8 * HIDDEN / ((KERNEL_US - 1) * 1e-6) * 1.5)


@pytest.mark.parametrize("layout", ["capture_traces", "graph_capture_profile", "."])
def test_captures_beside_a_trace_are_found_by_the_names_that_servers_give_them(tmp_path: Path, layout: str) -> None:
    path = replay(tmp_path)
    write_captures(tmp_path / layout)
    for named in (str(tmp_path), path):
        trace = only(named)
        assert trace.coverage.joined_kernels == 3 * NODES
        assert [note.id for note in trace.notes if str(tmp_path / layout) in note.text] == ["capture.found"]


def test_a_capture_beside_a_trace_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    path = replay(tmp_path)
    write_captures(tmp_path / "capture_traces")
    (tmp_path / "capture_traces" / "bs_4_rank0.json.gz").write_bytes(b"\x1f\x8b nothing")
    trace = only(path)
    assert trace.coverage.joined_kernels == 3 * NODES
    assert [note.id for note in trace.notes if "bs_4_rank0.json.gz" in note.text][-1] == "capture.skipped"
    with pytest.raises(RunFormatError, match=r"bs_4_rank0\.json\.gz"):
        only(path, capture=str(tmp_path / "capture_traces"))


def test_folders_of_servers_hold_the_replay_and_not_its_captures(tmp_path: Path) -> None:
    path = replay(tmp_path / "run")
    write_captures(tmp_path / "run" / "capture_traces")
    assert only(str(tmp_path)).file_info.path == path


def test_other_files_beside_a_trace_are_other_traces(tmp_path: Path) -> None:
    path = replay(tmp_path)
    write_events(tmp_path / "warm.json.gz", captures([("", decoder(8))]), rank=1)
    assert only(path).coverage.joined_kernels == 0
    assert len(analyze_traces([str(tmp_path)], jobs=1).traces) == 2


def test_of_several_ranks_each_takes_its_own_or_those_of_the_first(tmp_path: Path) -> None:
    paths = [replay(tmp_path, rank) for rank in (0, 1, 2)]
    for rank in (0, 1):
        write_captures(tmp_path / "captured", rank)
    found = analyze_traces(paths, capture=str(tmp_path / "captured"), jobs=1)
    assert [trace.graphs[0].capture for trace in found.traces] == [
        "bs_8_rank0.json.gz", "bs_8_rank1.json.gz", "bs_8_rank0.json.gz",
    ]  # fmt: skip


def test_a_capture_that_does_not_fit_says_what_to_do(tmp_path: Path) -> None:
    path = replay(tmp_path)
    other = write_events(tmp_path / "other.json.gz", captures([("", decoder(8, layers=5))]))
    with pytest.raises(UsageError) as raised:
        only(path, capture=other)
    message = str(raised.value)
    assert message.startswith(other)
    assert path in message
    assert re.findall(r" (\d+)\b", message) == [str(NODES), str(len(decoder(8, layers=5)))]


def test_a_trace_without_captures_is_refused_as_one(tmp_path: Path) -> None:
    path = replay(tmp_path)
    with pytest.raises(UsageError, match="cudaStreamBeginCapture"):
        only(path, capture=path)


def test_a_trace_that_replays_nothing_says_that_there_is_nothing_to_join(tmp_path: Path) -> None:
    eager = write_events(tmp_path / "eager.json.gz", captures([("", decoder(8))], warm_up=True))
    trace = only(eager, capture=write_captures(tmp_path / "captured"))
    assert trace.graphs == ()
    assert "capture.not_used" in [note.id for note in trace.notes]


def test_some_graphs_without_a_capture_are_told_with_the_reason(tmp_path: Path) -> None:
    trace = only(replay(tmp_path), capture=write_captures(tmp_path / "captured", of=(8,)))
    assert [(row.joined_nodes, bool(row.reason)) for row in trace.graphs] == [(NODES, False), (0, True)]
    assert "batch of 16" in trace.graphs[1].reason
    assert trace.coverage.joined_kernels == 2 * NODES


def test_both_sides_of_a_comparison_are_joined(tmp_path: Path) -> None:
    after, before = replay(tmp_path / "after"), replay(tmp_path / "before")
    write_captures(tmp_path / "before" / "capture_traces")
    given = write_captures(tmp_path / "captured")
    change = analyze_traces([after], against=[before], capture=given, jobs=1).difference
    assert change is not None
    assert change.before_trace.coverage.joined_kernels == 3 * NODES
    assert {row.name for row in change.changes if row.before_calls} >= {"aten::mm", "_C::rms_norm"}
