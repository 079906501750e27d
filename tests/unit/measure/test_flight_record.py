"""What torch itself records of collectives, as a rank leaves it and as its own dumps have it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

from perfkit.flight.flight_dumps import read_dump, select_dumps
from perfkit.flight.flight_record import FlightRecord
from perfkit.flight.match import find_mismatches
from perfkit.flight.record_file import read_flight_record
from perfkit.measure.launch.dump_mark import find_marks
from perfkit.measure.rank.flight_dump import count_collectives, save_flight_record
from tests.fixtures.torch_features import NEEDS_RECORDED_GLOO


@pytest.fixture
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(f"{tmp_path}/store", 1), rank=0, world_size=1)
    _, ended = count_collectives()
    dist.all_reduce(torch.ones(3, 4))
    dist.broadcast(torch.ones(2, dtype=torch.bfloat16), 0)
    count_when_ended(ended + 2)
    yield
    dist.destroy_process_group()


def told(record: FlightRecord) -> list[tuple[str, str, int | None, bool]]:
    return [(call.op, str(call.tensors), call.tensors.bytes, call.finished) for call in record.collectives[-2:]]


@NEEDS_RECORDED_GLOO
@pytest.mark.usefixtures("_alone")
def test_a_rank_leaves_what_torch_recorded_and_dumps_of_torch_tell_the_same(tmp_path: Path) -> None:
    save_flight_record(tmp_path)
    (tmp_path / "dump_0").write_bytes(c10d._dump_fr_trace(True, True, False))
    (tmp_path / "json_rank_0.json").write_bytes(c10d._dump_fr_trace_json(True, False))
    left = read_flight_record(tmp_path / "flight_recorder.json.gz")
    expected = [("all_reduce", "[3, 4] fp32", 48, True), ("broadcast", "[2] bf16", 4, True)]
    assert told(left) == expected
    assert left.last is not None
    assert left.last.call_site.partition(":")[0] == __file__
    assert left.groups[left.last.group].label == "default_pg"
    for name in ("dump_0", "json_rank_0.json"):
        assert select_dumps([str(tmp_path / name)])
        assert told(read_dump(str(tmp_path / name))) == expected
    assert find_mismatches({0: left}) == ()


def test_the_mark_stands_while_the_record_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def dump(*_: bool) -> bytes:
        seen.append(find_marks(tmp_path))
        raise RuntimeError("no dump can be had")

    monkeypatch.setattr(c10d, "_dump_nccl_trace", dump, raising=False)
    with pytest.raises(RuntimeError):
        save_flight_record(tmp_path)
    assert seen == [[tmp_path / "flight_recorder.writing"]]
    assert find_marks(tmp_path) == []


@NEEDS_RECORDED_GLOO
@pytest.mark.usefixtures("_alone")
def test_collectives_are_counted_as_they_end() -> None:
    entered, ended = count_collectives()  # those of other tests, too, some of which have never ended
    assert entered >= ended >= 2
    for _ in range(3):
        dist.all_reduce(torch.ones(5))
    assert count_when_ended(ended + 3) == (entered + 3, ended + 3)


def count_when_ended(wanted: int) -> tuple[int, int]:
    """gloo's threads note the end of a collective after its caller has gone on."""
    limit = time.monotonic() + 10
    while True:
        entered, ended = count_collectives()
        if ended >= wanted or time.monotonic() > limit:
            return entered, ended
        time.sleep(0.001)
