"""Collectives that a backend ran on the host: what they exchange, and who asked; times in microseconds."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.trace import CollectiveRow, RankTrace
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.devices.ceilings.ceiling import DeviceCeilings, LinkRate
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.figures import list_figures
from tests.fixtures.traces import Event, mark, op, write_trace

MEASURED = LinkRate(collective="all-reduce", ranks=2, bytes=400, seconds=10e-6, backend="gloo")


def ran(name: str, start: float, duration: float, elements: int, thread: int = 2) -> Event:
    """A range as ProcessGroupGloo writes it: with the tensors that the rank puts in."""
    about = {"Input Dims": [[elements]], "Input type": ["float"], "Concrete Inputs": [""], "Input Strides": [[1]]}
    return {**mark(name, start, duration, thread), "args": about}


def groups(*sizes: int, world_size: int = 2) -> dict[str, Any]:
    config = [{"pg_name": str(number), "pg_size": size} for number, size in enumerate(sizes)]
    return {"distributedInfo": {"rank": 0, "world_size": world_size, "pg_config": config}}


def analysed(
    tmp_path: Path, events: list[Event], around: dict[str, Any], links: tuple[LinkRate, ...] = ()
) -> RankTrace:
    path = write_trace(tmp_path / "t.json.gz", [mark("ProfilerStep#1", 0, 1000), *events], **around)
    known = DeviceCeilings(device="cpu", device_name="", fingerprint="this machine", links=links)
    return analyze_trace(read_trace(path), known if links else None)


def only(trace: RankTrace) -> CollectiveRow:
    (row,) = trace.collectives
    return row


def test_the_backends_range_tells_what_was_exchanged(tmp_path: Path) -> None:
    events = [
        op("aten::mm", 0, 30, [(8, 8), (8, 8)]),
        op("c10d::allreduce_", 5, 2),
        ran("gloo:all_reduce", 10, 40, 100),
    ]
    row = only(analysed(tmp_path, events, groups(2)))
    assert (row.name, row.kind, row.group_size, row.dtype, row.message_bytes) == (
        "gloo:all_reduce", "all-reduce", 2, "Float", 400,
    )  # fmt: skip
    assert row.volume_bytes == 2 * 1 / 2 * 400
    assert row.bus_bandwidth == pytest.approx(400 / 40e-6)
    assert row.hidden == pytest.approx(1 / 2)  # 20 of 40 us beside the product
    assert row.requested_kind == ""


def test_what_is_gathered_is_the_parts_of_all_ranks(tmp_path: Path) -> None:
    row = only(analysed(tmp_path, [ran("gloo:all_gather", 10, 40, 100)], groups(4, world_size=4)))
    assert (row.message_bytes, row.volume_bytes) == (1600, 3 / 4 * 1600)


def test_the_size_of_the_group_is_not_guessed(tmp_path: Path) -> None:
    """Among groups of several sizes a range does not say which it is of."""
    events = [ran("gloo:all_gather", 10, 40, 100), ran("gloo:all_reduce", 60, 40, 100)]
    rows = {row.kind: row for row in analysed(tmp_path, events, groups(2, 4, world_size=4)).collectives}
    assert rows["all-gather"].message_bytes is None
    assert rows["all-reduce"].message_bytes == 400
    assert rows["all-reduce"].volume_bytes is rows["all-reduce"].bus_bandwidth is None


def test_groups_of_one_size_are_not_all_ranks(tmp_path: Path) -> None:
    row = only(analysed(tmp_path, [ran("gloo:all_reduce", 10, 40, 100)], groups(2, 2, world_size=4)))
    assert (row.group, row.group_size) == ("", 2)


def test_a_collective_that_gloo_makes_of_another_names_the_call(tmp_path: Path) -> None:
    events = [
        op("c10d::_reduce_scatter_base_", 0, 10, [(50,), (100,)]),
        ran("gloo:all_reduce", 12, 40, 100),  # taken up a moment after the call came back
        op("c10d::allreduce_", 60, 10),
        ran("gloo:all_reduce", 65, 40, 200),
    ]
    rows = {row.message_bytes: row for row in analysed(tmp_path, events, groups(2)).collectives}
    assert rows[400].requested_kind == "c10d::_reduce_scatter_base_"
    assert rows[800].requested_kind == ""


def test_a_call_that_nothing_ran_keeps_its_row(tmp_path: Path) -> None:
    events = [ran("gloo:all_reduce", 0, 40, 100), op("c10d::_allgather_base_", 60, 10, [(100,), (50,)])]
    assert {row.name for row in analysed(tmp_path, events, groups(2)).collectives} == {
        "gloo:all_reduce",
        "allgather_base",
    }


def test_collectives_are_held_against_what_was_measured_at_their_size(tmp_path: Path) -> None:
    row = only(analysed(tmp_path, [ran("gloo:all_reduce", 10, 40, 100)], groups(2), (MEASURED,)))
    assert row.ceiling == pytest.approx(400 / 10e-6)
    assert {"400 B", "2"} <= {*list_figures(row.ceiling_source)}
    assert "gloo" in row.ceiling_source
    assert not row.efficiency_reason


def test_what_is_faster_than_measured_has_no_share(tmp_path: Path) -> None:
    row = only(analysed(tmp_path, [ran("gloo:all_reduce", 10, 5, 100)], groups(2), (MEASURED,)))
    assert "perfkit calibrate --world-size 2 --force" in row.efficiency_reason


@pytest.mark.parametrize(
    ("name", "ranks", "why"),
    [
        ("gloo:all_reduce", 4, "`perfkit calibrate --world-size 4`"),
        ("gloo:broadcast", 2, "broadcast"),
    ],
)
def test_where_nothing_was_measured_the_reason_is_told(tmp_path: Path, name: str, ranks: int, why: str) -> None:
    row = only(analysed(tmp_path, [ran(name, 10, 40, 100)], groups(ranks, world_size=ranks), (MEASURED,)))
    assert row.ceiling is None
    assert why in row.ceiling_source


def test_ranks_on_several_machines_are_told_that_nothing_is_measured_there(tmp_path: Path) -> None:
    path = write_trace(
        tmp_path / "t.json.gz",
        [mark("ProfilerStep#1", 0, 1000), ran("gloo:all_reduce", 10, 40, 100)],
        **groups(4, world_size=4),
    )
    known = DeviceCeilings(device="cpu", device_name="", fingerprint="this machine", links_reason="on several machines")
    assert only(analyze_trace(read_trace(path), known)).ceiling_source == "on several machines"
