import io
import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from perfkit.check.judge.check_reader import read_check
from perfkit.check.judge.result import Check
from perfkit.core.errors import PerfkitError
from perfkit.core.note import make_note
from perfkit_reports.charts.pairs import build_pairs_chart
from perfkit_reports.document.blocks import Block, Details, Table, Text
from perfkit_reports.document.document import Document
from perfkit_reports.render import github, html, terminal
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.check.check_document import build_document
from tests.fixtures import sample_checks as sample
from tests.fixtures.figures import list_figures
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE


def blocks(of: Document) -> dict[str, Block]:
    """Those of all sections and folds, by their ids."""

    def all_of(some: tuple[Block, ...]) -> Iterator[Block]:
        for block in some:
            yield block
            if isinstance(block, Details):
                yield from all_of(block.blocks)

    every = [*of.summary, *(block for section in of.sections for block in section.blocks)]
    found = list(all_of(tuple(every)))
    assert len({block.id for block in found}) == len(found)
    return {block.id: block for block in found}


def rows(block: Block) -> list[dict[str, str]]:
    """The texts of a table."""
    assert isinstance(block, Table)
    return [{column.title: column.cell(row).text for column in block.columns} for row in block.rows]


def printed(check: Check, width: int = 100, *, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    terminal.render(build_document(check), console, verbose=verbose)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_verdict_is_told_with_what_was_compared(every_verdict: Check) -> None:
    said = build_document(every_verdict)
    assert said.verdict is not None
    assert (said.verdict.text, said.verdict.tone) == ("✗ fail", "bad")
    assert list_figures(said.headline) == ["4", "19", "1", "4", "+7.7 %"]  # the largest of its four
    assert list_figures(said.lead[0]) == ["4", "57", "2 min", "53 s", "3 min", "0 s"]
    assert [(note.id, list_figures(note.text)) for note in said.warnings] == [("check.pairs", ["2", "26"])]
    assert [tile.cell.text for tile in said.tiles] == ["origin/main", "working tree"]
    assert said.tiles[1].cell.detail == "revision 9c1e77a; AMD EPYC 9354, torch 2.13.0+cpu"


def test_gated_quantities_are_one_table_the_worst_first(every_verdict: Check) -> None:
    judged = rows(blocks(build_document(every_verdict))["judged"])
    verdicts = [row["Verdict"] for row in judged]
    assert verdicts == (
        ["✗ fail"] * 4 + ["? inconclusive"] * 2 + ["– not compared"] * 3 + ["▲ improved"] * 3 + ["✓ pass"] * 7
    )
    assert judged[0] == {
        "Variant": "gpt amp+compile",
        "Quantity": "peak allocated",
        "Verdict": "✗ fail",
        "Before": "312 MiB",
        "After": "330 MiB",
        "Change": "+5.8 %",
        "Threshold": "0.5%",
        "Reason": every_verdict.variants[0].quantities[0].reason,
    }


def test_a_single_variant_is_not_named_in_each_row() -> None:
    assert "Variant" not in rows(blocks(build_document(sample.passing()))["judged"])[0]


def test_what_is_not_gated_stands_apart_and_folded() -> None:
    found = blocks(build_document(sample.passing()))
    remarks = {row["Quantity"]: row["Remark"] for row in rows(found["reported"])}
    assert [*remarks] == ["throughput", "energy per step"]
    assert "threshold" in remarks["throughput"]
    assert "energy counter" in remarks["energy per step"]
    fold = found["not-gated"]
    assert isinstance(fold, Details)
    assert (list_figures(fold.title), fold.open) == (["2"], False)


def test_reasons_are_told_where_figures_do_not(every_verdict: Check) -> None:
    reasons = blocks(build_document(every_verdict))["reasons"]
    assert isinstance(reasons, Text)
    assert [line.split(":")[0] for line in reasons.lines] == ["mlp baseline", "mlp baseline", "gpt offload"]
    assert {"68"} <= {*list_figures(reasons.lines[0])}
    assert "not compared: peak allocated" in reasons.lines[2]
    stopped = blocks(build_document(sample.stopped()))["reasons"]
    assert isinstance(stopped, Text)
    assert list_figures(stopped.lines[0]) == ["3", "1.93 GiB", "2.00 GiB"]
    assert "reasons" not in blocks(build_document(sample.better()))


def test_why_has_the_tables_that_differ(every_verdict: Check) -> None:
    found = blocks(build_document(every_verdict))
    assert rows(found["ops-0"])[0] == {
        "Op": "aten::_softmax",
        "Evidence": "slower",
        "Change": "+910 us",
        "Before": "310 us",
        "After": "1.22 ms",
        "Calls": "6",
        "Module": "blocks.*.attn",
        "Phase": "forward",
        "Shapes": "[8, 6, 256, 256]",
        "FLOPs before": "20.0 GFLOP",
        "FLOPs after": "20.0 GFLOP",
        "Bytes before": "5.96 GiB",
        "Bytes after": "5.96 GiB",
    }
    categories = found["categories-0"]
    assert isinstance(categories, Table)
    assert rows(categories)[0] == {
        "Category": "activation",
        "Before": "241 MiB",
        "After": "259 MiB",
        "Change": "+18.0 MiB",
    }
    ends = {column.find_largest(categories.rows) for column in categories.columns if column.meter}
    assert ends == {259 * 2**20}  # both sides on one scale
    assert rows(found["memory-0"])[0]["Allocated by"] == "aten::_softmax"
    assert "why-1" not in found


def test_a_variant_of_which_nothing_stands_out_says_so(every_verdict: Check) -> None:
    variant = every_verdict.variants[0]
    assert variant.explanation is not None
    quiet = msgspec.structs.replace(variant, explanation=msgspec.structs.replace(variant.explanation, suspects=()))
    block = blocks(build_document(msgspec.structs.replace(every_verdict, variants=(quiet,))))["suspects-0"]
    assert isinstance(block, Text)
    assert block.style == "empty"


def test_variants_that_need_a_look_come_first_and_open() -> None:
    found = blocks(build_document(sample.one_of_two()))
    folds = [found[name] for name in ("pairs-of-0", "pairs-of-1")]
    titles = [(*fold.title.split(": 24 pairs, "), fold.open) for fold in folds if isinstance(fold, Details)]
    assert titles == [("gpt amp+compile", "lock-step", True), ("gpt baseline", "lock-step", False)]


def test_what_differs_between_the_machines_is_marked() -> None:
    said = build_document(sample.other_machine())
    table = blocks(said)["environment-of-both"]
    assert isinstance(table, Table)
    cells = [table.columns[0].cell(row) for row in table.rows]
    assert [cell.text for cell in cells if cell.detail == "differs"] == ["Device", "CPU"]
    (warning,) = said.warnings
    assert warning.id == "check.environments_differ"
    assert warning.text.endswith("cpu_model: AMD EPYC 9354 -> AMD EPYC 7763")


def test_a_variant_without_thresholds_says_so() -> None:
    check = sample.passing()
    variant = msgspec.structs.replace(check.variants[0], quantities=(), notes=(make_note("why.run_ended", "not run"),))
    found = blocks(build_document(msgspec.structs.replace(check, variants=(variant,))))
    (ungated,) = found["ungated"].lines
    assert ungated.startswith("gpt baseline: ")
    assert (found["notes"].lines, found["notes"].note_ids) == (("not run",), ("why.run_ended",))


def test_a_reason_is_not_repeated_as_a_note() -> None:
    check = msgspec.structs.replace(sample.every_verdict(), variants=(sample.did_not_run(),))
    assert "notes" not in blocks(build_document(check))


def test_the_pairs_are_one_dot_each_with_the_mean_so_far() -> None:
    variant = sample.improved()
    chart = build_pairs_chart(variant, "pairs-0")
    assert chart is not None
    go.Figure(chart.figure)
    wall, running, cpu, _ = chart.figure["data"]
    assert len(wall["x"]) == len(cpu["x"]) == len(variant.pairs)
    assert running["y"][0] == wall["y"][0]
    assert [line["y0"] for line in chart.figure["layout"]["shapes"]] == [pytest.approx(5.0), pytest.approx(3.0)]
    assert [name for name, _, _ in chart.legend] == ["step time", "CPU time"]
    json.dumps(chart.figure)
    assert build_pairs_chart(sample.did_not_run(), "pairs-0") is None


def test_raw_rows_are_those_of_the_check(every_verdict: Check) -> None:
    data = {each.name: each.rows() for each in build_document(every_verdict).data}
    assert {name: len(found) for name, found in data.items()} == {"judged": 22, "pairs": 57, "ops": 4, "memory": 1}
    assert data["judged"][0] | {"verdict": "fail", "threshold": "0.5%", "before": 312 * 2**20} == data["judged"][0]
    assert data["pairs"][0]["step_time_change"] == pytest.approx(0.07, abs=0.1)


def test_any_check_makes_a_page_that_loads_nothing_and_is_not_broken_out_of(check: Check) -> None:
    page = Page(html.render(build_document(check)))
    assert page.loaded() == []
    assert page.intruders() == []
    assert msgspec.json.decode(page.unfold("saved"), type=Check) == check


def test_hostile_text_is_there_as_text() -> None:
    assert HOSTILE.split("\n")[0] in Page(html.render(build_document(sample.hostile()))).text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_everything_fits_the_terminal_and_no_number_is_cut(check: Check, width: int) -> None:
    assert max(cell_len(line) for line in printed(check, width).splitlines()) <= width
    cut = [line for line in printed(check, width, verbose=True).splitlines() if "…" in line]
    assert all("$(id)" in line for line in cut)  # the hostile name of an op


def test_on_a_narrow_terminal_the_same_is_told_in_words() -> None:
    text = " ".join(printed(sample.every_verdict(), 40, verbose=True).split())
    assert {"+5.8 %", "0.5%"} <= {*list_figures(text)}


def test_what_is_not_gated_is_printed_only_when_asked_for() -> None:
    assert "throughput" not in printed(sample.passing())
    assert "throughput" in printed(sample.passing(), verbose=True)


@given(st.text(max_size=60), st.sampled_from([40, 80]))
def test_no_text_of_a_check_reaches_the_terminal_as_a_command(text: str, width: int) -> None:
    check, note = sample.every_verdict(), make_note("check.pairs", text)
    variant = msgspec.structs.replace(check.variants[0], variant=text, pairs=(), notes=(note,))
    shown = printed(msgspec.structs.replace(check, variants=(variant,), notes=(note,)), width)
    assert not [letter for letter in shown if letter != "\n" and not letter.isprintable() and ord(letter) < 0xA0]


def test_every_form_is_written(every_verdict: Check, tmp_path: Path) -> None:
    said = build_document(every_verdict)
    paths = write_document(said, tmp_path / "out", report="https://ci.example/report.html")
    names = [str(path.relative_to(tmp_path / "out")) for path in paths]
    assert names[:5] == ["report.html", "check.json", "summary.json", "comment.md", "junit.xml"]
    assert set(names[5:]) == {f"tables/{name}.parquet" for name in ("judged", "pairs", "ops", "memory")}
    assert read_check(tmp_path / "out") == every_verdict
    comment = (tmp_path / "out" / "comment.md").read_text(encoding="utf-8")
    assert comment == github.format_comment(said, report="https://ci.example/report.html")


def test_inconclusive_as_a_failure_is_one_of_junits(every_verdict: Check, tmp_path: Path) -> None:
    write_document(build_document(every_verdict), tmp_path, unsure="failure")
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert len(root.findall(".//failure")) == 4 + 2


def test_a_folder_that_cannot_be_written_is_told(every_verdict: Check, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PerfkitError, match="cannot be written"):
        write_document(build_document(every_verdict), tmp_path / "file")
