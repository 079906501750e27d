"""The report on advice: what it recommends, in every form, and the commands that follow from it."""

from pathlib import Path

import msgspec
import plotly.graph_objects as go
import pytest
from msgspec.structs import replace

from perfkit.core.errors import RunFormatError
from perfkit.core.note import make_note
from perfkit.plan.advise.advice import Advice
from perfkit.plan.advise.advice_reader import read_advice
from perfkit.store.listing import list_runs
from perfkit.store.summary import ADVICE_FILE
from perfkit_reports.document.blocks import Chart, Table
from perfkit_reports.document.weight import Weight
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.advice.advice_document import build_document
from perfkit_reports.subjects.advice.advice_headline import list_alternatives
from perfkit_reports.subjects.advice.advice_steps import list_next_steps
from perfkit_reports.subjects.registry import load_document
from tests.fixtures import sample_advice as sample
from tests.fixtures.document_blocks import blocks, column, titles

ALL = ("realistic", "measured", "unknown_times", "of_a_trace")


@pytest.mark.parametrize("name", ALL)
def test_every_form_is_written_and_comes_back(name: str, tmp_path: Path) -> None:
    advice = getattr(sample, name)()
    paths = write_document(build_document(advice), tmp_path, figures=Weight.DETAIL)
    assert {path.name for path in paths} >= {"report.html", "report.md", ADVICE_FILE, "summary.json"}
    assert read_advice(tmp_path) == advice
    assert load_document(tmp_path).headline == build_document(advice).headline
    (listed,) = list_runs(tmp_path)
    assert (listed.kind, listed.state, listed.reported) == ("advice", "ok", True)


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    (tmp_path / ADVICE_FILE).write_bytes(msgspec.json.encode({**msgspec.to_builtins(sample.realistic()), "guess": 1}))
    with pytest.raises(RunFormatError, match=r"advice\.json.*guess"):
        read_advice(tmp_path)


def _read_options(advice: Advice, title: str) -> list[str]:
    return column(blocks(build_document(advice))["options"], title)


def test_the_best_combination_stands_first_and_what_is_not_known_is_not_zero() -> None:
    names, times = (_read_options(sample.realistic(), title) for title in ("Technique", "Step time"))
    assert names == ["amp+compile", "lora", "amp", "compile", "ckpt", "fused"]
    assert times[names.index("fused")] == "n/a"
    assert times[names.index("compile")] == "-30 % at most"
    assert times[names.index("ckpt")].startswith("+25 %")


def test_without_memory_there_is_no_column_of_it() -> None:
    shown = titles(blocks(build_document(sample.of_a_trace()))["options"])
    assert not {"Peak memory", "Fits", "Measured"} & {*shown}


def test_bars_are_of_what_may_help_and_valid() -> None:
    for name in ALL:
        for block in blocks(build_document(getattr(sample, name)())).values():
            if isinstance(block, Chart):
                go.Figure(block.figure)
    chart = blocks(build_document(sample.realistic()))["expected-time"]
    assert isinstance(chart, Chart)
    bars = [bar for trace in chart.figure["data"] if trace["type"] == "bar" for bar in trace["y"]]
    assert sorted(bars) == ["amp", "amp+compile", "as it is", "compile", "lora"]


def test_alternatives_differ_in_more_than_parameters() -> None:
    advice = sample.realistic()
    again = replace(advice.options[1], name="amp:dtype=fp16")
    alternatives = list_alternatives(replace(advice, options=(*advice.options, again)))
    assert [option.name for option in alternatives] == ["lora", "amp", "compile"]


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("realistic", ["perfkit bench -w gpt -t amp+compile", "perfkit bench -w gpt -t lora,amp,compile"]),
        ("measured", ["perfkit report runs/verified"]),
        ("unknown_times", ["perfkit calibrate", "perfkit advise gpt --goal memory"]),
        ("of_a_trace", ["perfkit techniques amp", "perfkit bench -w train.py:build -t amp"]),
    ],
)
def test_it_ends_in_commands(name: str, commands: list[str]) -> None:
    assert [step.command for step in list_next_steps(getattr(sample, name)())] == commands


def test_what_changes_results_has_its_own_command() -> None:
    note = make_note("advice.changes_results", "", fits=True)
    advice = replace(sample.realistic(), notes=(note,))
    assert [step.command for step in list_next_steps(advice)][-1] == "perfkit advise gpt --allow any"


def test_what_fits_is_named_before_what_does_not() -> None:
    document = build_document(sample.nothing_fits())
    assert document.headline.startswith("Use qlora+ckpt")
    table = next(block for block in document.blocks if isinstance(block, Table) and block.id == "options")
    assert [row.name for row in table.rows[:2]] == ["qlora+ckpt", "amp+compile"]
    assert not build_document(sample.nothing_fits(others=False)).headline.startswith("Use")
