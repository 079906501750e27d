from typing import Any

import msgspec
import pytest

from perfkit.analysis.model.replay import FindingGains, ReplaySummary
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.core import units
from perfkit.core.record import Measurement
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit_reports.document.cells import Cell
from perfkit_reports.subjects.trace.improvements import Improvement, compute_saving_s, list_improvements
from perfkit_reports.subjects.trace.tiles import build_tiles
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


def find_best(analysis: TraceAnalysis) -> Improvement:
    return max(list_improvements(analysis.traces[0]), key=lambda improvement: improvement.saving_s)


def test_one_sentence_names_device_step_bounds_and_gain() -> None:
    headline = build_headline(sample.alone())
    assert sample.alone().traces[0].device_name in headline
    assert [figure for figure in list_figures(headline) if " " in figure] == ["34.9 ms", "40 %", "27 %", "10.8 ms"]


def test_the_saving_is_the_sum_of_time_above_the_roofs_and_no_more() -> None:
    trace = sample.trace("rank 0", 0)
    sure = [row for row in trace.kernels if row.attainable_s is not None and not row.above_roof]
    assert compute_saving_s(trace) == pytest.approx(sum(row.seconds - (row.attainable_s or 0.0) for row in sure))
    assert compute_saving_s(msgspec.structs.replace(trace, step_s=1e-3)) == 1e-3


def test_work_outside_of_steps_is_not_saved_from_a_step() -> None:
    trace = sample.trace("rank 0", 0)
    outside = tuple(msgspec.structs.replace(row, phase="outside steps") for row in trace.kernels)
    assert compute_saving_s(msgspec.structs.replace(trace, kernels=outside)) is None


def test_without_steps_the_length_of_the_trace_is_named_as_such() -> None:
    headline = build_headline(sample.without_shapes())
    assert headline.startswith("Trace of 34.9 ms")
    assert "10.8 ms" not in headline


def test_the_way_that_saves_most_is_named() -> None:
    split = (
        TimeShare(category="idle waiting for the CPU", seconds=0.9, share=0.9),
        TimeShare(category="memory-bound", seconds=0.1, share=0.1),
    )
    analysis = sample.alone(step_s=1.0, time_split=split)
    assert list_figures(build_headline(analysis))[-3:] == ["90 %", "10 %", "900 ms"]
    assert find_best(analysis).ids == ("launch.cpu_bound",)


def test_work_without_an_estimate_is_no_part_of_the_headline() -> None:
    def split(unknown: float, memory: float) -> tuple[TimeShare, ...]:
        shares = {"no FLOP or byte estimate": unknown, "memory-bound": memory, "communication": 1 - unknown - memory}
        return tuple(TimeShare(category=name, seconds=share, share=share) for name, share in shares.items())

    little = summarize_trace(analysis := sample.alone(step_s=1.0, time_split=split(0.25, 0.35)), analysis.traces[0])
    assert [figure for figure in list_figures(little) if "%" in figure] == ["40 %", "35 %"]
    much = summarize_trace(analysis := sample.alone(step_s=1.0, time_split=split(0.45, 0.15)), analysis.traces[0])
    assert [figure for figure in list_figures(much) if "%" in figure] == ["60 %", "40 %"]  # of all kernels


def test_a_long_gap_is_not_to_be_mended_by_launching_sooner() -> None:
    split = (TimeShare(category="idle waiting for the CPU", seconds=0.9, share=0.9),)
    waiting = sample.alone(step_s=1.0, time_split=split, gaps=(rank_traces.gap(0.6),))
    assert list_figures(build_headline(waiting))[-1] == "600 ms"
    assert find_best(waiting).ids == ("idle.long_gaps",)


@pytest.mark.parametrize("ceilings", [{}, {"ceilings": None}])
def test_work_is_not_said_to_lack_a_cost_model(ceilings: dict[str, Any]) -> None:
    split = (TimeShare(category="no FLOP or byte estimate", seconds=1.0, share=1.0),)
    headline = build_headline(sample.alone(step_s=1.0, time_split=split, **ceilings))
    assert "100 %" in headline
    assert "estimate" not in headline


def test_the_latest_rank_leads_and_says_so() -> None:
    headline = build_headline(sample.many_ranks())
    assert headline.startswith("Step 37.1 ms")
    assert {"63", "64"} <= {*list_figures(headline)}


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
    (told,) = list_remarks(whole)
    assert told == f"rank 0: {summarize_trace(whole, whole.traces[0])}"


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
    (reason,) = (line for line in list_remarks(analysis) if told.startswith(line))
    (finding,) = (each for each in collect_trace_findings((trace,), None, None) if advice in each.action)
    assert told == f"{reason} {finding.action}"
    assert advice not in " ".join(list_remarks(analysis))


def test_an_empty_trace_has_no_roofline() -> None:
    reason = explain_missing_roofline(sample.nothing().traces[0])
    assert "no kernels" in reason
    assert reason in list_remarks(sample.nothing())


def test_a_file_that_is_cut_off_is_told_beside_the_headline() -> None:
    whole = sample.alone()
    reading = msgspec.structs.replace(whole.traces[0].file_info, is_truncated=True)
    cut_off = msgspec.structs.replace(whole.traces[0], file_info=reading)
    host = msgspec.structs.replace(cut_off, device="cpu", device_name="")
    for trace, on in ((cut_off, "NVIDIA H100"), (host, "the CPU, ")):
        text = build_headline(msgspec.structs.replace(whole, traces=(trace,)))
        assert text.startswith("Truncated trace: step ")
        assert on in text
    assert len(list_remarks(sample.alone(file_info=reading))) == len(list_remarks(whole)) + 1


def test_a_trace_of_communication_alone_is_not_asked_for_shapes() -> None:
    rows = sample.without_shapes().traces[0].kernels
    talk = tuple(msgspec.structs.replace(row, bound="communication") for row in rows)
    analysis = sample.alone(kernels=talk, ops=(), summary=(), coverage=sample.without_shapes().traces[0].coverage)
    assert explain_missing_roofline(analysis.traces[0]).endswith("communication or copies.")


def cells(analysis: TraceAnalysis) -> dict[str, Cell]:
    return {tile.title: tile.cell for tile in build_tiles(analysis)}


def test_tiles_never_show_a_figure_that_is_not_known() -> None:
    shown = cells(sample.unknown_device())
    assert (shown["Potential savings"].text, shown["MFU"].text) == ("n/a", "n/a")
    assert shown["MFU"].reason
    assert "Exposed communication" not in cells(sample.nothing())
    assert cells(sample.nothing())["Coverage"].text == "n/a"


def test_the_peak_of_a_device_is_not_that_of_the_cpu_beside_it() -> None:
    beside = sample_accounts.step(8)
    assert cells(sample.alone(memory=beside))["Peak memory"].text == "n/a"
    assert cells(sample.alone(memory=beside, device="cpu"))["Peak memory"].text == "8 B"


def test_tiles_of_a_whole_trace() -> None:
    shown = {title: (cell.text, list_figures(cell.detail)) for title, cell in cells(sample.alone()).items()}
    assert shown["Step time"] == ("34.9 ms", ["3", "34.6 ms", "35.6 ms"])
    assert shown["Exposed communication"] == ("4.54 ms", ["8.20 ms", "45 %"])
    assert shown["Device idle"] == ("14.0 %", ["4.89 ms", "3.84 ms"])
    assert shown["MFU"][0] == "15.8 %"
    assert shown["MFU"][1][-1] == "18.9 %"


def test_a_utilization_that_counts_masked_pairs_says_so() -> None:
    trace = sample.trace("rank 0", 0)
    assert isinstance(trace.mfu, Measurement)
    masked = msgspec.structs.replace(trace, mfu=msgspec.structs.replace(trace.mfu, source=f"FLOPs; {UNMASKED}"))
    analysis = msgspec.structs.replace(sample.alone(), traces=(masked,))
    assert cells(analysis)["MFU"].detail.startswith(cells(sample.alone())["MFU"].detail)
    assert "masked" in cells(analysis)["MFU"].detail


def test_without_ceilings_the_saving_is_that_of_all_fixes() -> None:
    analysis = sample.unknown_device()
    (trace, *_) = analysis.traces
    gains = FindingGains(by_finding={"launch.cpu_bound": 0.1}, together_s=trace.step_s / 4, step_s=trace.step_s)
    saving = cells(msgspec.structs.replace(analysis, traces=(msgspec.structs.replace(trace, gains=gains),)))[
        "Potential savings"
    ]
    assert (saving.text, list_figures(saving.detail)) == (units.format_seconds(trace.step_s / 4), ["25 %"])


def test_the_saving_is_what_the_replay_gains_with_all_work_at_its_roof() -> None:
    analysis = sample.alone()
    trace = analysis.traces[0]
    replayed = ReplaySummary(
        recorded_s=1.0, replayed_s=1.0, error=0.0, nodes=9, busy_share=0.9, reason="", critical_path={}
    )
    gains = FindingGains(roofs_s=trace.step_s / 10, step_s=trace.step_s)

    def told(**changed: Any) -> Cell:
        one = msgspec.structs.replace(trace, **changed)
        (tile,) = (
            tile for tile in build_tiles(msgspec.structs.replace(analysis, traces=(one,))) if "savings" in tile.title
        )
        return tile.cell

    simulated = told(replay=replayed, gains=gains)
    assert (simulated.text, list_figures(simulated.detail)) == ("3.49 ms", ["10 %"])
    more = told(replay=replayed, gains=msgspec.structs.replace(gains, together_s=trace.step_s / 5))
    assert more.text == "6.98 ms"
    assert list_figures(more.detail) == ["20 %"]
    less = told(replay=replayed, gains=msgspec.structs.replace(gains, together_s=trace.step_s / 50))
    assert less.text == "3.49 ms"
    for refused in (
        {"replay": None, "gains": gains},
        {"replay": msgspec.structs.replace(replayed, reason="too far off"), "gains": gains},
        {"replay": replayed, "gains": msgspec.structs.replace(gains, reason="kernels are missing")},
        {"replay": replayed, "gains": None},
    ):
        assert told(**refused).text == "10.8 ms"
