"""More traces than are analyzed in full: the figures of all ranks stay, whole results only those of chosen ones."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.pipeline import trace_analysis
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.errors import RunFormatError
from perfkit.store.summary import compute_digest
from perfkit_reports.subjects.trace.trace_summary import summarize_analysis
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.rank_files import MIB, Call, write_rank

RANKS = 7
LATE = 4  # comes to every all-reduce after the others
STRETCHED = {2: 1.3, LATE: 1.1, 5: 0.8}


def write_job(folder: Path) -> list[str]:
    return [
        str(
            training_file(
                folder / f"rank{rank}.json",
                rank=rank,
                world_size=RANKS,
                late_us=20.0 if rank == LATE else float(rank),
                slower=STRETCHED.get(rank, 1.0),
            )
        )
        for rank in range(RANKS)
    ]


def test_the_ranks_of_many_files_are_those_of_the_same_files_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_job(tmp_path)
    whole = analyze_traces(paths, jobs=1)
    monkeypatch.setattr(trace_analysis, "MOST_FULL", 2)
    found = analyze_traces(paths, jobs=1)
    assert found.fleet == whole.fleet
    assert found.fleet is not None
    assert found.fleet.straggler == f"rank {LATE}"
    # The first, the straggler, and those of the longest, the middle and the shortest step.
    by_step = [row.rank for row in sorted(found.fleet.ranks, key=lambda row: row.step_s)]
    expected = {0, LATE, by_step[0], by_step[RANKS // 2], by_step[-1]}
    assert {trace.rank for trace in found.traces} == expected
    assert len(expected) < RANKS
    by_rank = {trace.rank: trace for trace in whole.traces}
    for trace in found.traces:
        assert trace.kernels == by_rank[trace.rank].kernels
        assert trace.collectives == by_rank[trace.rank].collectives
    assert [(note.id, note.figures) for note in found.warnings] == [
        ("trace.chosen_ranks", {"traces": RANKS, "chosen": len(expected)})
    ]
    assert summarize_analysis(found).sources == compute_digest(paths) == summarize_analysis(whole).sources
    assert len(msgspec.json.encode(found)) < len(msgspec.json.encode(whole))


def test_the_rank_that_is_last_most_often_is_chosen_and_each_choice_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, often, slow = 9, 7, 5

    def arrive(rank: int, step: int) -> float:
        late = 30.0 if rank == often and step != 4 else 900.0 if rank == slow and step == 4 else rank / 10
        return 2000 + late

    paths = [
        write_rank(
            tmp_path / f"rank{rank}.json",
            rank,
            ranks,
            [[Call("allreduce", MIB, arrive(rank, step), 3500)] for step in range(6)],
        )
        for rank in range(ranks)
    ]
    monkeypatch.setattr(trace_analysis, "MOST_FULL", 2)
    found = analyze_traces(paths, jobs=1)
    assert found.fleet is not None
    assert found.fleet.ranks[often].last_share == pytest.approx(5 / 6)
    labels = {trace.label for trace in found.traces}
    assert {"rank 0", f"rank {often}", f"rank {slow}"} <= labels
    assert len(labels) < ranks
    (note,) = (note for note in found.warnings if note.id == "trace.chosen_ranks")
    assert all(f"{label} (" in note.text for label in labels)
    assert found.file_count == ranks
    assert f"{len(labels)} of {ranks}" in found.provenance[0].detail


def test_files_that_cannot_be_read_are_named_once_among_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_analysis, "MOST_FULL", 2)
    paths = write_job(tmp_path)
    Path(paths[3]).write_text("nothing of the kind")
    cut = Path(paths[6])
    cut.write_text(cut.read_text()[:-700])
    found = analyze_traces(paths, jobs=1)
    assert found.fleet is not None
    assert [row.rank for row in found.fleet.ranks] == [0, 1, 2, 4, 5, 6]
    figures = {note.id: note.figures for note in found.warnings}
    assert figures["trace.truncated_files"] == {"files": 1}
    assert [note.id for note in found.warnings].count("trace.skipped") == 1
    assert figures["trace.chosen_ranks"]["traces"] == RANKS - 1


def test_where_none_of_many_can_be_read_the_first_error_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_analysis, "MOST_FULL", 2)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.json").write_text("nothing of the kind")
    with pytest.raises(RunFormatError, match=r"\b3 traces\b.*a\.json"):
        analyze_traces([str(tmp_path / f"{name}.json") for name in ("a", "b", "c")], jobs=1)
