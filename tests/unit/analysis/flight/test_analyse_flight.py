"""From dumps of ranks to what to do: who did not enter what, and what differs."""

import pickle
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perfkit.analysis.model.flight import FlightAnalysis
from perfkit.analysis.pipeline.flight_analysis import analyze_flight
from perfkit.core.errors import RunFormatError
from tests.fixtures.flight_dumps import WORLD, dump, entry


def analysed(folder: Path, *ranks: dict[str, Any]) -> FlightAnalysis:
    for rank, each in enumerate(ranks):
        (folder / f"dump_{rank}").write_bytes(pickle.dumps(each, 2))
    return analyze_flight([str(folder / f"dump_{rank}") for rank in range(len(ranks))], command="perfkit analyze x")


def test_the_rank_that_did_not_come_is_named_with_what_the_other_called(tmp_path: Path) -> None:
    made = analysed(tmp_path, dump(entry(0), entry(1, ended=False), entry(2, ended=False)), dump(entry(0)))
    [finding] = made.findings
    assert finding.id == "collective.absent_rank"
    assert "rank 1" in finding.title.lower()
    assert "all_reduce 1" in finding.title
    assert "default_pg" in finding.title
    assert "[4, 1024] fp32" in finding.evidence
    assert "/home/me/train.py:12 (loss)" in finding.evidence
    assert "rank 1" in finding.action
    assert "rank 0" not in finding.action
    first, second = made.ranks
    assert (first.unfinished, first.pending_collective and first.pending_collective.sequence, first.group) == (
        2,
        1,
        "default_pg",
    )
    assert (
        second.unfinished,
        second.pending_collective,
        second.last_collective and second.last_collective.sequence,
    ) == (0, None, 0)
    assert msgspec.json.decode(msgspec.json.encode(made), type=FlightAnalysis) == made


def test_an_absent_rank_that_waits_itself_is_not_the_cause(tmp_path: Path) -> None:
    dp, tp = ("1", "dp"), ("2", "tp")
    made = analysed(
        tmp_path,
        dump(entry(0, group=dp, ended=False), groups={dp: (0, 1)}),
        dump(entry(0, "broadcast", group=tp, ended=False), groups={dp: (0, 1), tp: (1, 2)}),
        dump(groups={tp: (1, 2)}),
    )
    first, second = made.findings
    assert (first.id, second.id) == ("collective.absent_rank",) * 2
    assert "broadcast 0 of tp" in first.title
    assert "rank 2" in first.action
    assert "all_reduce 0" in second.title
    assert "broadcast 0 of tp" in second.action


def test_shapes_that_differ_are_told_by_rank(tmp_path: Path) -> None:
    other = entry(0, sizes=[[3, 1024]], ended=False)
    [finding] = analysed(tmp_path, dump(entry(0, ended=False)), dump(other)).findings
    assert finding.id == "collective.shapes"
    assert "default_pg" in finding.title
    by_rank = dict(re.findall(r"(rank \d): .*?(\[\d, \d+\]) fp32", finding.evidence))
    assert by_rank == {"rank 0": "[4, 1024]", "rank 1": "[3, 1024]"}


def test_calls_in_another_order_are_told_by_rank(tmp_path: Path) -> None:
    first = dump(entry(0), entry(1, "broadcast", ended=False))
    [finding] = analysed(tmp_path, first, dump(entry(0), entry(1, ended=False))).findings
    assert finding.id == "collective.order"
    assert dict(re.findall(r"(rank \d): (\w+)", finding.evidence)) == {"rank 0": "broadcast", "rank 1": "all_reduce"}


def test_dtypes_that_differ_are_told_by_rank(tmp_path: Path) -> None:
    other = entry(0, dtype="BFloat16", ended=False)
    [finding] = analysed(tmp_path, dump(entry(0, ended=False)), dump(other)).findings
    assert finding.id == "collective.dtypes"
    assert dict(re.findall(r"(rank \d): .*?(fp32|bf16)", finding.evidence)) == {"rank 0": "fp32", "rank 1": "bf16"}


def test_a_collective_that_all_entered_and_one_did_not_finish(tmp_path: Path) -> None:
    [finding] = analysed(tmp_path, dump(entry(0), entry(1, ended=False)), dump(entry(0), entry(1))).findings
    assert finding.id == "collective.unfinished"
    assert "all_reduce 1" in finding.title
    assert "rank 0" in finding.evidence


def test_ranks_without_a_dump_are_told(tmp_path: Path) -> None:
    made = analysed(tmp_path, dump(entry(0, ended=False), groups={WORLD: (0, 1, 2)}))
    (note,) = made.warnings
    assert (note.id, note.figures) == ("flight.missing_dumps", {"missing": 2, "ranks": 3})
    assert made.findings[0].id == "collective.no_record"
    assert "all_reduce 0" in made.findings[0].title
    assert "default_pg" in made.findings[0].title


def test_a_file_that_cannot_be_read_is_left_out_where_others_can_be(tmp_path: Path) -> None:
    (tmp_path / "dump_7").write_bytes(b"\x80\x02garbage")
    whole = tmp_path / "dump_0"
    whole.write_bytes(pickle.dumps(dump(entry(0)), 2))
    made = analyze_flight([str(whole), str(tmp_path / "dump_7")])
    assert made.warnings[0].id == "flight.skipped"
    assert str(tmp_path / "dump_7") in made.warnings[0].text
    assert made.findings == ()
    with pytest.raises(RunFormatError, match="dump_7"):
        analyze_flight([str(tmp_path / "dump_7")])
