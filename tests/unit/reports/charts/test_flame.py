"""Flame graphs as data: labels with keys, what was before a change, and the largest blocks in words."""

import dataclasses
import io

from msgspec.structs import replace
from rich.console import Console

from perfkit.analysis.model.step import FlameGraph
from perfkit_reports.charts.flame import build_flame, build_tree, build_words_table
from perfkit_reports.document.blocks import Flame as FlameBlock
from perfkit_reports.document.blocks import FlameTree
from perfkit_reports.render import markdown, terminal
from perfkit_reports.render.flame_sheet import build_flame_legend, build_flame_sheet
from perfkit_reports.subjects.trace import build_document
from perfkit_reports.subjects.trace.flame import build_section
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.document_blocks import blocks, column

FLAME = FlameGraph(
    grouping="module",
    names=("Net_0", "Linear_1", "aten::mm", "gemm_kernel", "no module"),
    kinds=("module", "op", "kernel"),
    parent=(-1, -1, 0, 2, 3),
    name=(0, 4, 1, 2, 3),
    kind=(0, 0, 0, 1, 2),
    values={"time": (0.01, 0.002, 0.008, 0.008, 0.008), "flops": (4e9, 0.0, 4e9, 4e9, 4e9)},
    min_share=0.001,
)


def block() -> FlameBlock:
    trace = replace(sample.trace("rank 0", 0), flames=(FLAME,))
    found = build_section([trace], {}, "trace")
    assert found is not None
    (made,) = found.blocks
    assert isinstance(made, FlameBlock)
    return made


def test_blocks_have_the_keys_of_rows_and_dots() -> None:
    made = build_tree(FLAME)
    keys = [made.labels[label][1] for label in made.label]
    assert keys == ["module:Net_0", "", "module:Net_0/Linear_1", "op:aten::mm", "kernel:gemm_kernel"]
    assert [made.labels[label][2] for label in made.label] == ["", "", "", "GEMM", "GEMM"]


def test_what_was_before_is_matched_by_path() -> None:
    values = {"time": (0.005, 0.001, 0.004, 0.004, 0.004)}
    renamed = replace(FLAME, names=("Net_0", "Other_1", "aten::mm", "gemm_kernel", "no module"), values=values)
    assert build_tree(FLAME, renamed).before["time"][:5] == (0.005, 0.001, 0.0, 0.0, 0.0)


def test_what_is_gone_is_as_wide_as_it_was_where_it_was() -> None:
    values = {"time": (0.005, 0.001, 0.004, 0.004, 0.004)}
    renamed = replace(FLAME, names=("Net_0", "Other_1", "aten::mm", "gemm_kernel", "no module"), values=values)
    made = build_tree(FLAME, renamed)
    assert made.gone == 3, "Other_1, its op and its kernel"
    assert [made.labels[label][0] for label in made.label[5:]] == ["Other_1", "aten::mm", "gemm_kernel"]
    assert made.parent[5:] == (0, 5, 6)
    assert made.values["time"][5:] == (0.0, 0.0, 0.0)
    assert made.sum_gone("time") == [0.004, 0.0, 0.0, 0.0, 0.0, 0.004, 0.004, 0.004], "Net_0 has it once"
    assert made.sum_gone("flops") == [0.0] * 8, "of which nothing was known before"
    words = build_words_table("words", made, ("time", "time", "s"))
    assert words is not None
    assert column(words, "Block")[-4:] == [
        "· Other_1 (gone)",
        "· · aten::mm (gone)",
        "· · · gemm_kernel (gone)",
        "no module",
    ]
    assert column(words, "Before")[0] == "5.00 ms"


def test_only_what_is_known_can_be_the_width_and_only_what_is_there_is_in_the_legend() -> None:
    made = block()
    assert [name for name, _, _ in made.measures] == ["time", "flops"]
    assert [name for name, _ in made.looks] == ["GEMM"]


def test_trees_of_nothing_are_left_out() -> None:
    full = FlameTree(labels=(("net", "", ""),), parent=(-1,), label=(0,), values={"time": (1.0,)})
    empty = FlameTree(labels=(), parent=(), label=(), values={"time": ()})
    instant = FlameTree(labels=(("net", "", ""),), parent=(-1,), label=(0,), values={})
    made = build_flame({("a",): empty, ("b",): instant, ("c",): full}, ("By",), "flame", "", "")
    assert made is not None
    assert list(made.trees) == [("c",)]
    assert build_flame({("a",): empty}, ("By",), "flame", "", "") is None


def test_the_largest_blocks_are_told_in_words_each_below_what_it_lies_in() -> None:
    words = block().words
    assert words is not None
    assert column(words, "Block") == ["Net_0", "· Linear_1", "· · aten::mm", "· · · gemm_kernel", "no module"]
    assert column(words, "Time") == ["10.0 ms", "8.00 ms", "8.00 ms", "8.00 ms", "2.00 ms"]


def test_formats_without_pictures_tell_the_words() -> None:
    trace = replace(sample.trace("rank 0", 0), flames=(FLAME,))
    made = build_document(replace(sample.alone(), traces=(trace,)))
    console = Console(file=io.StringIO(), width=160)
    terminal.render(made, console, verbose=True)
    for text in (markdown.render(made), console.file.getvalue()):  # type: ignore[attr-defined]
        assert "· · aten::mm" in text


def test_looks_of_one_color_are_one_entry_of_the_legend() -> None:
    looks = (("norm", "#123456"), ("GEMM", "#abcdef"), ("reduction", "#123456"))
    assert build_flame_legend(dataclasses.replace(block(), looks=looks)) == [
        ("norm, reduction", "#123456"),
        ("GEMM", "#abcdef"),
    ]


def test_labels_stand_once_for_all_trees() -> None:
    trace = replace(sample.trace("rank 0", 0), flames=(FLAME, replace(FLAME, grouping="phase")))
    found = build_section([trace], {}, "trace")
    assert found is not None
    (made,) = found.blocks
    assert isinstance(made, FlameBlock)
    sheet = build_flame_sheet(made)
    assert len(sheet["labels"]) == 5
    assert sheet["order"] == [("modules", "rank 0"), ("phases", "rank 0")]


def test_a_change_colors_the_trace_that_is_compared() -> None:
    analysis = sample.realistic()
    change = analysis.difference
    assert change is not None
    flames = (FLAME,)
    after = tuple(replace(trace, flames=flames) for trace in analysis.traces)
    changed = replace(change, before_trace=replace(change.before_trace, flames=flames))
    made = blocks(build_document(replace(analysis, traces=after, difference=changed)))["flame"]
    assert isinstance(made, FlameBlock)
    assert {owner: bool(found.before) for (_, owner), found in made.trees.items()} == {
        "rank 0": True,
        "main rank 0": False,
        "rank 1": False,
    }
