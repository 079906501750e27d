"""Labels that tell traces apart."""

import msgspec

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.trace_labels import label_sides, label_traces
from tests.fixtures.rank_traces import rank_trace


def found(label: str, rank: int | None, path: str) -> RankTrace:
    trace = rank_trace(label=label, rank=rank)
    return msgspec.structs.replace(trace, file_info=msgspec.structs.replace(trace.file_info, path=path))


def labels(*traces: RankTrace) -> list[str]:
    return [trace.label for trace in label_traces(traces)]


def test_labels_that_differ_stay_as_they_are() -> None:
    assert labels(found("rank 0", 0, "a/x.json"), found("rank 1", 1, "a/y.json")) == ["rank 0", "rank 1"]


def test_two_files_of_one_rank_show_their_names() -> None:
    assert labels(
        found("rank 0", 0, "j/a.json"), found("rank 0", 0, "j/b.json.gz"), found("rank 1", 1, "j/c.json")
    ) == [
        "rank 0 (a)",
        "rank 0 (b)",
        "rank 1",
    ]


def test_two_files_of_one_name_show_their_folders_then_their_paths() -> None:
    assert labels(found("t", None, "new/t.json"), found("t", None, "old/t.json")) == ["new/t", "old/t"]
    assert labels(found("rank 0", 0, "new/t.json"), found("rank 0", 0, "old/t.json")) == [
        "rank 0 (new/t)",
        "rank 0 (old/t)",
    ]
    assert labels(found("t", None, "1/x/t.json"), found("t", None, "2/x/t.json")) == ["1/x/t.json", "2/x/t.json"]


def test_one_file_given_twice_is_numbered() -> None:
    assert labels(found("t", None, "x/t.json"), found("t", None, "x/t.json")) == ["x/t.json", "x/t.json (2)"]


def test_the_sides_of_a_comparison_have_their_files_names() -> None:
    def names(after: str, before: str) -> list[str]:
        return [trace.label for trace in label_sides(found("rank 3", 3, after), found("rank 3", 3, before))]

    assert names("runs/after.json.gz", "runs/before.json") == ["after", "before"]
    assert names("new/rank3.json", "old/rank3.json") == ["new/rank3", "old/rank3"]
    assert names("a/x/t.json", "b/x/t.json") == ["a/x/t.json", "b/x/t.json"]
