"""Which files are traces of captures, and of which rank."""

from pathlib import Path

import pytest

from perfkit.trace.readers.capture_files import drop_captures, is_capture_file, select_rank_captures


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("run/capture_traces/graph_capture_rank_0.1773709742341309550.pt.trace.json.gz", True),  # vLLM
        ("run/capture_traces/bs_8_rank0.json.gz", True),  # SGLang
        ("run/graph_capture_profile/cuda_graph_capture-DecodeCudaGraphRunner-TP-0.json.gz", True),
        ("run/capture_trace_rank_0.json.gz", True),  # xDiT
        ("run/bs_8_rank0.json.gz", True),
        ("run/bs_8.json.gz", False),
        ("run/rank0.json.gz", False),
        ("run/1785501977.97-TP-0.trace.json.gz", False),
        ("capture/rank0.json.gz", False),
    ],
)
def test_captures_are_told_by_the_names_that_servers_give_them(path: str, is_one: bool) -> None:
    assert is_capture_file(Path(path)) == is_one


def test_captures_alone_are_traces_like_others() -> None:
    captures, replay = [Path("bs_8_rank0.json"), Path("bs_4_rank0.json")], Path("replay.json")
    assert drop_captures([*captures, replay]) == [replay]
    assert drop_captures(captures) == captures


def test_each_rank_has_its_own_captures_or_those_of_the_lowest() -> None:
    mine = ("cuda_graph_capture-Runner-TP-1.json.gz",)
    first = ("bs_8_rank0.json.gz", "bs_4_rank0.json.gz")
    assert select_rank_captures([*first, *mine], 1) == mine
    assert (
        select_rank_captures([*first, *mine], 0)
        == select_rank_captures([*first, *mine], 5)
        == select_rank_captures([*first, *mine], None)
        == first
    )
    assert select_rank_captures(["a.json", "b.json"], 3) == ("a.json", "b.json")
