"""Dumps of torch's flight recorder become records, and what is none is refused in one line."""

from typing import Any

import msgspec
import pytest

from perfkit.core.errors import RunFormatError
from perfkit.flight.decode import decode_dump
from perfkit.flight.record_file import read_flight_record, write_flight_record
from tests.fixtures.flight_dumps import FRAMES, dump, entry


def test_a_collective_is_told_with_its_size_and_where_it_was_called() -> None:
    record = decode_dump(dump(entry(7, ended=False)), "rank0")
    [call] = record.collectives
    assert (call.op, call.backend, call.sequence, call.finished) == ("all_reduce", "nccl", 7, False)
    assert (str(call.tensors), call.tensors.bytes) == ("[4, 1024] fp32", 4 * 1024 * 4)
    assert call.call_site == "/home/me/train.py:12 (loss)"
    assert record.groups["0"].label == "default_pg"
    assert record.groups["0"].ranks == (0, 1)
    assert record.waits_in is call


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
@pytest.mark.parametrize("ended", [True, False])
def test_nccl_tells_the_end_by_its_events_and_gloo_by_a_flag(backend: str, ended: bool) -> None:
    [call] = decode_dump(dump(entry(1, backend=backend, ended=ended)), "x").collectives
    assert call.finished is ended


def test_a_collective_of_nccl_that_timed_out_is_retired_and_has_not_ended() -> None:
    timed_out = {**entry(1, ended=False), "retired": True}
    assert not decode_dump(dump(timed_out), "x").collectives[0].finished


def test_calls_that_were_launched_as_one_end_with_it() -> None:
    """Those within have no events of their own, and are never retired."""
    sends = (entry(number, "send 0->1", sequence=5, p2p=True, ended=False) for number in (1, 2))
    within = [{**send, "state": "scheduled"} for send in sends]
    whole = entry(3, "coalesced", sequence=5, p2p=True)
    record = decode_dump(dump(*within, whole), "x")
    assert all(call.finished for call in record.collectives)
    assert record.waits_in is None


def test_messages_have_a_source_and_a_destination() -> None:
    record = decode_dump(dump(entry(1, "send 0->1", p2p=True), entry(2, "recv 0<-1", p2p=True)), "x")
    assert [(call.op, call.peers) for call in record.collectives] == [("send", (0, 1)), ("recv", (1, 0))]


def test_json_has_lists_for_tuples_no_stacks_and_no_entries_where_there_are_none() -> None:
    whole = dump(entry(1))
    del whole["entries"][0]["frames"]
    from_json = msgspec.json.decode(msgspec.json.encode(whole))
    assert decode_dump(from_json, "x") == decode_dump(whole, "x")
    assert decode_dump(from_json, "x").collectives[0].call_site == ""
    del from_json["entries"]
    assert decode_dump(from_json, "x").collectives == ()


def test_many_tensors_are_told_by_the_first_and_bytes_of_an_unknown_dtype_are_not() -> None:
    [many] = decode_dump(dump(entry(1, sizes=[[2]] * 9)), "x").collectives
    assert str(many.tensors).count("[2] fp32") == 4
    assert " 5 " in str(many.tensors)
    [odd] = decode_dump(dump(entry(1, dtype="QUInt99")), "x").collectives
    assert (str(odd.tensors), odd.tensors.bytes) == ("[4, 1024] QUInt99", None)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"version": "3.0"}, "format '3.0'"),
        ({"version": "1.5"}, "perfkit reads format 2"),
        ({"version": 2}, "expected a dump"),
        ({"entries": [{}]}, "damaged"),
        ({"entries": [{**entry(1), "record_id": -1}]}, "entries[0].record_id"),
        ({"entries": [{**entry(1), "input_sizes": [[1 << 70]]}]}, "damaged"),
        ({"pg_config": {"0": {"ranks": {"a": 1}}}}, "pg_config"),
    ],
)
def test_what_is_no_dump_is_refused_with_what_is_wrong(damage: dict[str, Any], told: str) -> None:
    with pytest.raises(RunFormatError, match=told.replace("[", r"\[").replace("]", r"\]")) as caught:
        decode_dump({**dump(entry(1)), **damage}, "here")
    assert str(caught.value).startswith("here: ")
    assert "\n" not in str(caught.value)


def test_ranks_that_call_from_one_place_share_its_stack() -> None:
    first, second = (decode_dump(dump(entry(0)), "rank").collectives[0] for _ in range(2))
    assert first.frames is second.frames


def test_a_rank_leaves_its_last_collectives(tmp_path) -> None:
    path = tmp_path / "flight_recorder.json.gz"
    whole = dump(*(entry(number) for number in range(600)))
    write_flight_record(path, whole)
    record = read_flight_record(path)
    assert [call.number for call in record.collectives] == list(range(100, 600))
    assert record.dropped
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RunFormatError, match="cannot be read"):
        read_flight_record(path)


def test_gloos_group_without_a_name_is_the_default_one() -> None:
    calls = (entry(1, backend="gloo"), entry(2, backend="gloo", group=("1", "undefined")))
    groups = decode_dump(dump(*calls, groups={("", ""): (0, 1, 2)}), "rank0").groups
    assert {name: group.ranks for name, group in groups.items()} == {"0": (0, 1, 2), "1": ()}


def test_hooks_of_an_attached_loop_are_not_where_the_program_calls() -> None:
    hook = ("followed", "/opt/site-packages/perfkit/attach/loop/loop_hooks.py", 143)
    call = entry(1, frames=(FRAMES[0], hook, *FRAMES[2:]))
    [read] = decode_dump(dump(call), "rank0").collectives
    assert read.call_site == "/home/me/train.py:12 (loss)"
