"""Files of flight recorders: which are some, whose they are, and that nothing in them is run."""

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import zstandard

from perfkit.core.errors import PerfkitError, RunFormatError, UsageError
from perfkit.flight.decode import decode_dump
from perfkit.flight.flight_dumps import is_dump_file, map_ranks, parse_rank, read_dump, select_dumps
from perfkit.flight.record_file import write_flight_record
from tests.fixtures.flight_dumps import dump, entry

DUMP = dump(*(entry(number) for number in range(3)), entry(3, ended=False))
TRACE = {"distributedInfo": {"pg_config": []}, "traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}


def sorted_json(whole: dict[str, Any]) -> bytes:
    """As torch writes it: without stacks, its keys in the order of the alphabet."""
    bare = {**whole, "entries": [{k: v for k, v in each.items() if k != "frames"} for each in whole["entries"]]}
    return json.dumps(bare, sort_keys=True).encode()


FORMS = {
    "dump_0": pickle.dumps(DUMP, 2),
    "dump_1": gzip.compress(pickle.dumps(DUMP, 4)),
    "dump_2.json": sorted_json(DUMP),
    "dump_3.json.gz": gzip.compress(sorted_json(DUMP)),
}


@pytest.mark.parametrize("name", FORMS)
def test_pickle_and_json_plain_and_packed_are_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FORMS[name])
    assert is_dump_file(path)
    read = read_dump(str(path))
    expected = decode_dump(DUMP, "x")
    assert [(call.op, call.sequence, call.finished) for call in read.collectives] == [
        (call.op, call.sequence, call.finished) for call in expected.collectives
    ]
    assert bool(read.collectives[0].frames) == ("json" not in name)


def test_a_folder_stands_for_its_dumps_in_the_order_of_ranks(tmp_path: Path) -> None:
    for rank in (10, 2):
        (tmp_path / f"comm_lib_trace_rank_{rank}").write_bytes(pickle.dumps(DUMP, 2))
    (tmp_path / "notes.txt").write_text("hang of Tuesday")
    names = [Path(name).name for name in select_dumps([str(tmp_path)])]
    assert names == ["comm_lib_trace_rank_2", "comm_lib_trace_rank_10"]
    assert select_dumps([str(tmp_path / "comm_lib*")]) == select_dumps([str(tmp_path)])
    (tmp_path / "trace.json").write_text(json.dumps(TRACE))
    assert select_dumps([str(tmp_path)]) == ()  # a folder of traces, as ever
    assert select_dumps([str(tmp_path / "comm_lib_trace_rank_2")])
    assert select_dumps([str(tmp_path / "comm_lib_trace_rank_2"), str(tmp_path / "trace.json")]) == ()


def test_a_run_of_perfkit_that_failed_stands_for_what_its_ranks_left(tmp_path: Path) -> None:
    for rank in range(2):
        folder = tmp_path / f"rank{rank}"
        write_flight_record(folder / "flight_recorder.json.gz", DUMP)
        (folder / "record.json").write_text("{}")
        (folder / "history.json.gz").write_bytes(gzip.compress(b"[" + b"1," * 300_000 + b"1]"))
    found = select_dumps([str(tmp_path)])
    assert map_ranks(found) == {rank: str(tmp_path / f"rank{rank}" / "flight_recorder.json.gz") for rank in range(2)}
    (tmp_path / "suite.json").write_text("{}")
    assert select_dumps([str(tmp_path)]) == ()


@pytest.mark.parametrize("damaged", [b"", sorted_json(DUMP)[:20], pickle.dumps(DUMP, 2)[:20]])
def test_a_file_that_is_named_beside_dumps_and_cannot_be_read_is_left_to_the_reader(
    tmp_path: Path, damaged: bytes
) -> None:
    whole, broken = tmp_path / "dump_0", tmp_path / "dump_1"
    whole.write_bytes(FORMS["dump_0"])
    broken.write_bytes(damaged)
    assert select_dumps([str(broken), str(whole)]) == (str(whole), str(broken))
    assert select_dumps([str(broken)]) == ()
    with pytest.raises(RunFormatError, match="dump_1"):
        read_dump(str(broken))


def test_an_empty_file_makes_no_folder_of_dumps_one_of_traces(tmp_path: Path) -> None:
    (tmp_path / "dump_0").write_bytes(FORMS["dump_0"])
    (tmp_path / "dump_3.json").touch()
    assert select_dumps([str(tmp_path)]) == (str(tmp_path / "dump_0"),)


def run_with_dumps(folder: Path) -> Path:
    """Both ranks have a dump of NCCL's watchdog, and rank 0 has left its own."""
    write_flight_record(folder / "rank0" / "flight_recorder.json.gz", DUMP)
    (folder / "spec.json").write_text("{}")
    for rank in range(2):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(FORMS["dump_0"])
    return folder


def test_of_a_run_each_ranks_own_record_comes_before_the_watchdogs(tmp_path: Path) -> None:
    run = run_with_dumps(tmp_path / "0")
    expected = (str(run / "nccl_trace_rank_1"), str(run / "rank0" / "flight_recorder.json.gz"))
    assert select_dumps([str(run)]) == select_dumps([str(tmp_path)]) == expected


def test_dumps_of_several_runs_are_not_matched_with_each_other(tmp_path: Path) -> None:
    for repeat in ("0", "1"):
        run_with_dumps(tmp_path / repeat)
    with pytest.raises(UsageError, match=r"\b2 runs\b.*0$"):
        select_dumps([str(tmp_path)])


def test_a_pickle_packed_with_zstd_is_to_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "dump_0.zst"
    path.write_bytes(zstandard.compress(FORMS["dump_0"]))
    assert select_dumps([str(path)])
    with pytest.raises(RunFormatError, match="unpack it first"):
        read_dump(str(path))


@pytest.mark.parametrize("name", ["missing", "https://host/dump_0", "-", "empty", "snapshot.pickle"])
def test_what_is_no_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("snapshot.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": []}, 2))
    assert select_dumps([name]) == ()


@pytest.mark.parametrize(
    ("file", "rank"),
    [
        ("nccl_trace_rank_3", 3),
        ("/tmp/comm_lib_trace_rank_12", 12),
        ("job7/rank4/flight_recorder.json.gz", 4),
        ("rank1/dump_5.pickle", 5),
        ("RANK2_attempt9.pkl.gz", 2),
    ],
)
def test_whose_it_is(file: str, rank: int) -> None:
    assert parse_rank(file) == rank


def test_names_that_do_not_tell_are_refused() -> None:
    with pytest.raises(UsageError, match=r"dump\.pickle"):
        parse_rank("dump.pickle")
    with pytest.raises(UsageError, match="rank 1"):
        map_ranks(["a/rank_1", "b/rank_1"])


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize(
    "data",
    [
        lambda folder: pickle.dumps({**DUMP, "entries": [Touch(folder / "ran")]}, 2),
        lambda _: pickle.dumps(DUMP, 2)[:-100],
        lambda _: sorted_json(DUMP)[:-100],
        lambda _: gzip.compress(sorted_json(DUMP))[:-9],
        lambda _: json.dumps({**DUMP, "version": "7.0"}).encode(),
        lambda _: json.dumps({**DUMP, "entries": [{**entry(1), "input_sizes": [[1 << 40, 1 << 40]]}]}).encode(),
        lambda _: b'{"entries":' + b"[" * 100_000,
        # Each list stands for a thousand of the one within.
        lambda _: pickle.dumps({**DUMP, "entries": [{**entry(1), "input_sizes": [[1] * 30_000] * 30_000}]}, 2),
    ],
)
def test_hostile_and_damaged_files_are_refused_in_one_line(tmp_path: Path, data: Any) -> None:
    path = tmp_path / "dump_0"
    path.write_bytes(data(tmp_path))
    with pytest.raises(PerfkitError) as caught:
        read_dump(str(path))
    assert isinstance(caught.value, RunFormatError)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
