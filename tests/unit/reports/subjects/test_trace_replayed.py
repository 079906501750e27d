"""What a report says of a replay: the path that a trace's length is made of, and what was asked for."""

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from perfkit.analysis.model.replay import PathRow, ReplaySummary, SimulatedChange
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.document.blocks import Bars, Table, Text, walk_blocks
from perfkit_reports.render import terminal
from perfkit_reports.subjects.trace import build_document
from perfkit_reports.subjects.trace.trace_data import build_data
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.figures import list_figures

PATH = {"GEMM": 0.0060, "host": 0.0030, "before first recorded work": 2e-7}
TOO_FAR = "the replay misses the recording by 12 %"


@pytest.fixture
def asked() -> TraceAnalysis:
    replayed = ReplaySummary(
        recorded_s=0.00905, replayed_s=0.0090, error=-0.005, nodes=42, busy_share=0.7, reason="", critical_path=PATH
    )
    what_ifs = (
        SimulatedChange(
            change="gemm=0.8",
            gain_s=0.0012,
            share=0.1333,
            summed_s=0.0015,
            reason="",
            critical_path=PATH,
            step_gain_s=0.0006,
        ),
        SimulatedChange(change="comm=0", gain_s=None, share=None, summed_s=0.0004, reason=TOO_FAR, critical_path={}),
    )
    return sample.alone(replay=replayed, what_ifs=what_ifs)


def test_who_asks_on_a_terminal_reads_the_answer_there(asked: TraceAnalysis) -> None:
    stream = io.StringIO()
    terminal.render(build_document(asked), Console(file=stream, width=100, no_color=True))
    rows = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    (row,) = (row for row in rows if row.startswith("gemm=0.8 "))
    assert list_figures(row.removeprefix("gemm=0.8 ")) == ["1.20 ms", "600 us", "13.3 %", "1.50 ms"]
    assert "comm=0 n/a n/a n/a 400 us" in rows


def _told(analysis: TraceAnalysis) -> dict[str, tuple[str, ...]]:
    blocks = walk_blocks(block for section in build_document(analysis).sections for block in section.blocks)
    return {block.id: block.lines for block in blocks if isinstance(block, Text)}


def test_why_there_is_no_gain_stands_beside_the_path(asked: TraceAnalysis) -> None:
    assert "replay-refused-0" not in _told(asked)
    replayed = asked.traces[0].replay
    assert replayed is not None
    refused = _told(sample.alone(replay=replace(replayed, reason=TOO_FAR)))["replay-refused-0"]
    assert TOO_FAR in refused[0]
    assert "upper bounds" in refused[0]


def test_what_a_replay_assumes_stands_beside_the_path(asked: TraceAnalysis) -> None:
    replayed = asked.traces[0].replay
    assert replayed is not None
    assert len(_told(sample.alone(replay=replayed, collectives=()))["replay-assumes-0"]) == 2
    assert "late ranks" in _told(asked)["replay-assumes-0"][0]
    path = {**PATH, "communication": 0.001}
    with_others = sample.alone(replay=replace(replayed, critical_path=path), collectives=())
    assert "late ranks" in _told(with_others)["replay-assumes-0"][0]


def test_the_path_is_a_bar_for_the_recording_and_for_each_change(asked: TraceAnalysis) -> None:
    blocks = walk_blocks(block for section in build_document(asked).sections for block in section.blocks)
    (bars,) = [block for block in blocks if isinstance(block, Bars) and block.id == "critical-path-bars-0"]
    assert [bar.name for bar in bars.bars] == ["as recorded, 9.00 ms", "gemm=0.8, 9.00 ms"]
    # What took no time to speak of is in no legend.
    assert bars.bars[0].categories == ["GEMM", "host"]
    assert [part.share for part in bars.bars[0].shares] == pytest.approx([2 / 3, 1 / 3], abs=1e-4)


def test_a_change_that_leaves_nothing_is_an_empty_bar(asked: TraceAnalysis) -> None:
    (trace,) = asked.traces
    gone = replace(trace.what_ifs[0], change="all=0", critical_path={"host": 0.0})
    blocks = walk_blocks(
        block
        for section in build_document(sample.alone(replay=trace.replay, what_ifs=(gone,))).sections
        for block in section.blocks
    )
    (bars,) = [block for block in blocks if isinstance(block, Bars) and block.id == "critical-path-bars-0"]
    assert bars.bars[1].shares == ()


def test_path_and_answers_are_raw_tables(asked: TraceAnalysis) -> None:
    tables = {each.name: each.rows() for each in build_data(asked)}
    assert [(row["kind"], row["seconds"]) for row in tables["critical_path"]] == list(PATH.items())
    assert [(row["change"], row["gain_s"], row["reason"]) for row in tables["what_ifs"]] == [
        ("gemm=0.8", 0.0012, ""),
        ("comm=0", None, TOO_FAR),
    ]


def test_a_trace_that_was_not_replayed_has_no_section() -> None:
    assert "replay" not in [section.id for section in build_document(sample.alone(replay=None)).sections]


def test_what_the_path_leads_through_is_told_by_op_module_and_line(asked: TraceAnalysis) -> None:
    replayed = asked.traces[0].replay
    assert replayed is not None
    row = PathRow(
        kind="waits", op="aten::item", call="cudaStreamSynchronize", module="Model/Layer", line="train.py:3 main",
        segments=12, seconds=0.0045, longest_s=0.001, longest_start_s=0.002,
    )  # fmt: skip
    analysis = sample.alone(replay=replace(replayed, segments=(row,)))
    blocks = walk_blocks(block for section in build_document(analysis).sections for block in section.blocks)
    (found,) = [block for block in blocks if isinstance(block, Table) and block.id == "path_segments-0"]
    shown = [column.cell(each).text for each in found.rows for column in found.columns]
    assert shown == [
        "cudaStreamSynchronize in aten::item", "waits", "4.50 ms", "49.7 %", "12", "1.00 ms", "train.py:3 main",
        "Model/Layer", "2.00 ms",
    ]  # fmt: skip
    tables = {each.name: each.rows() for each in build_data(analysis)}
    assert [(each["op"], each["segments"]) for each in tables["path_segments"]] == [("aten::item", 12)]
