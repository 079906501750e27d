from typing import Any

import msgspec
import pytest

from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.core.record.quantity import Measurement
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit_reports.document.cells import Cell
from perfkit_reports.subjects.trace.tiles import build_badges, build_tiles
from perfkit_reports.subjects.trace.trace_headline import (
    build_headline,
    explain_missing_roofline,
    get_file_name,
    list_remarks,
    summarize_trace,
)
from tests.fixtures import rank_traces, sample_accounts
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.figures import list_figures

_OPS_WITHOUT_SHAPES = msgspec.structs.replace(
    sample.without_shapes(),
    traces=tuple(
        msgspec.structs.replace(trace, ops=(rank_traces.row("aten::mm", 0.1, shapes=""),))
        for trace in sample.without_shapes().traces
    ),
)


@pytest.mark.parametrize("ceilings", [{}, {"ceilings": None}])
def test_work_is_not_said_to_lack_a_cost_model(ceilings: dict[str, Any]) -> None:
    split = (TimeShare(category="no FLOP or byte estimate", seconds=1.0, share=1.0),)
    headline = build_headline(sample.alone(step_s=1.0, time_split=split, **ceilings))
    assert "100 %" in headline
    assert "estimate" not in headline


def test_the_latest_rank_leads_and_says_so() -> None:
    headline = build_headline(sample.many_ranks())
    assert {"63", "64", "37.1 ms"} <= {*list_figures(headline)}


def test_files_are_named_as_files() -> None:
    def called(label: str) -> str:
        trace = rank_traces.rank_trace(label=label)
        return get_file_name(
            msgspec.structs.replace(trace, file_info=msgspec.structs.replace(trace.file_info, path="a/b.json"))
        )

    assert [called(label) for label in ("b", "rank 3", "a/b", "a/b.json", "a/b.json (2)")] == [
        "b.json", "rank 3", "a/b", "b.json", "b.json (2)",
    ]  # fmt: skip


def test_a_comparison_is_the_headline_and_the_trace_is_told_below() -> None:
    whole = sample.realistic()
    assert {"-15 %", "34.9 ms"} <= {*list_figures(build_headline(whole))}
    told = list_remarks(whole)
    assert told[0] == f"rank 0: {summarize_trace(whole, whole.traces[0])}"


@pytest.mark.parametrize(
    ("analysis", "advice"),
    [
        (_OPS_WITHOUT_SHAPES, "record_shapes=True"),
        (sample.unknown_device(), "--device"),
    ],
)
def test_without_a_roofline_the_reader_learns_why_at_once_and_in_its_place_what_to_do(
    analysis: TraceAnalysis, advice: str
) -> None:
    (trace,) = analysis.traces
    told = explain_missing_roofline(trace)
    assert advice in told
    (finding,) = (each for each in collect_trace_findings((trace,), None, None) if advice in each.action)
    assert told.endswith(f" {finding.action}")
    assert advice not in " ".join(list_remarks(analysis))


def test_an_empty_trace_has_no_roofline() -> None:
    assert "no kernels" in explain_missing_roofline(sample.nothing().traces[0])


def test_a_file_that_is_cut_off_is_told_beside_the_headline() -> None:
    whole = sample.alone()
    reading = msgspec.structs.replace(whole.traces[0].file_info, is_truncated=True)
    cut_off = msgspec.structs.replace(whole.traces[0], file_info=reading)
    text = build_headline(msgspec.structs.replace(whole, traces=(cut_off,)))
    assert text.startswith("Truncated trace: ")
    assert text.lower().endswith(build_headline(whole).lower())
    assert len(list_remarks(sample.alone(file_info=reading))) == len(list_remarks(whole)) + 1


def test_a_trace_of_communication_alone_is_not_asked_for_shapes() -> None:
    rows = sample.without_shapes().traces[0].kernels
    talk = tuple(msgspec.structs.replace(row, bound="communication") for row in rows)
    analysis = sample.alone(kernels=talk, ops=(), summary=(), coverage=sample.without_shapes().traces[0].coverage)
    assert explain_missing_roofline(analysis.traces[0]).endswith("communication or copies.")


def cells(analysis: TraceAnalysis) -> dict[str, Cell]:
    return {tile.title: tile.cell for tile in (*build_tiles(analysis), *build_badges(analysis))}


def test_tiles_never_show_a_figure_that_is_not_known() -> None:
    shown = cells(sample.unknown_device())
    assert (shown["MFU"].known, bool(shown["MFU"].reason)) == (False, True)
    assert [tile.title for tile in build_tiles(sample.nothing())] == [
        "Trace length",
        "Device idle",
        "MFU",
        "Peak memory",
    ]
    assert not cells(sample.nothing())["Coverage"].known


def test_the_peak_of_a_device_is_not_that_of_the_cpu_beside_it() -> None:
    beside = sample_accounts.step(8)
    assert cells(sample.alone(memory=beside))["Peak memory"].text == "n/a"
    assert cells(sample.alone(memory=beside, device="cpu"))["Peak memory"].text == "8 B"


def test_tiles_of_a_whole_trace() -> None:
    shown = {title: (cell.text, list_figures(cell.detail)) for title, cell in cells(sample.alone()).items()}
    assert shown["Step time"] == ("34.9 ms", ["3", "34.6 ms", "35.6 ms"])
    assert shown["GPU idle"] == ("14.0 %", ["4.89 ms", "3.84 ms"])
    assert shown["MFU"][0] == "15.8 %"
    assert shown["MFU"][1][-1] == "18.9 %"


def test_a_utilization_that_counts_masked_pairs_says_so() -> None:
    trace = sample.trace("rank 0", 0)
    assert isinstance(trace.mfu, Measurement)
    masked = msgspec.structs.replace(trace, mfu=msgspec.structs.replace(trace.mfu, source=f"FLOPs; {UNMASKED}"))
    analysis = msgspec.structs.replace(sample.alone(), traces=(masked,))
    assert cells(analysis)["MFU"].detail.startswith(cells(sample.alone())["MFU"].detail)
    assert "masked" in cells(analysis)["MFU"].detail
