"""What the report of a loop that perfkit was attached to says, and that every format can show it."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from perfkit.analysis.model.loop import CountPerStep, LiveSummary, Slowdown
from perfkit.analysis.model.plan import Interval
from perfkit.analysis.model.prediction import PredictedFigure, Prediction
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.suite import Analysis
from perfkit.core.record.environment import MachineLoad
from perfkit.core.record.rank_record import RunStatus
from perfkit_reports.document.blocks import Bars, Chart
from perfkit_reports.render import html, markdown, terminal
from perfkit_reports.subjects.loop import loop_facts
from perfkit_reports.subjects.loop.loop_document import build_document
from perfkit_reports.subjects.suite.suite_cells import NO_LOADER
from tests.fixtures import sample_loops
from tests.fixtures.document_blocks import blocks, column, titles
from tests.fixtures.figures import list_figures
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE


def printed(analysis: Analysis) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    terminal.render(build_document(analysis), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def first_with(**fields: Any) -> Analysis:
    whole = sample_loops.alone()
    return msgspec.structs.replace(whole, variants=(msgspec.structs.replace(whole.variants[0], **fields),))


def with_split(*split: TimeShare, **fields: Any) -> Analysis:
    """The loop with a trace of such parts."""
    trace = sample_loops.alone().variants[0].trace
    assert trace is not None
    return first_with(trace=sample_loops.with_parts(trace, *split), **fields)


def test_the_headline_tells_step_time_waiting_and_the_largest_parts() -> None:
    assert list_figures(build_document(sample_loops.alone()).headline) == ["23.4 ms", "31 %", "45 %", "40 %"]
    assert [list_figures(line) for line in list(build_document(sample_loops.alone()).lead)] == [["1.31×"]]


def test_other_load_of_the_machine_is_a_remark() -> None:
    def say(load: MachineLoad) -> list[list[str]]:
        return [
            list_figures(line) for line in build_document(msgspec.structs.replace(sample_loops.alone(), load=load)).lead
        ]

    busy = MachineLoad(seconds=3.0, cores=4, own_cores=0.3, other_cores=2.6, stolen_cores=0.1)
    quiet = MachineLoad(seconds=3.0, cores=4, own_cores=3.9, other_cores=0.1)
    assert say(busy) == [["2.6", "4"], ["1.31×"]]
    assert say(quiet) == [["1.31×"]]


def test_recording_is_never_said_to_make_steps_faster() -> None:
    """L-BFGS evaluates as often as it likes: steps differ in length."""
    (slowdown, *others) = sample_loops.LOOP.slowdowns
    shorter = msgspec.structs.replace(slowdown, seconds=0.008, ratio=0.34)
    loop = msgspec.structs.replace(sample_loops.LOOP, slowdowns=(shorter, *others))
    (lead,) = build_document(first_with(loop=loop)).lead
    assert list_figures(lead)[:1] == ["0.34×"]
    told = loop_facts.describe_slowdown(shorter)
    assert list_figures(told)[:3] == ["8.00 ms", "3", "23.5 ms"]


def test_the_headline_of_a_loop_that_waits_for_nothing_and_was_not_traced() -> None:
    idle = msgspec.structs.replace(sample_loops.LOOP, data_wait_share=0.01)
    assert list_figures(build_document(first_with(loop=idle)).headline)[:2] == ["23.4 ms", "45 %"]
    assert list_figures(build_document(first_with(loop=idle, trace=None)).headline) == ["23.4 ms"]
    assert list_figures(build_document(first_with(trace=None)).headline) == ["23.4 ms", "31 %"]


def test_the_headline_tells_how_a_loop_ended_that_did_not_end_well() -> None:
    assert list_figures(build_document(sample_loops.out_of_memory()).headline) == ["3"]
    failed = build_document(first_with(status=RunStatus.FAILED, reason="ValueError: no data", trace=None)).headline
    assert list_figures(failed) == ["23.4 ms", "31 %", "71"]
    assert build_document(first_with(status=RunStatus.FAILED, reason="no data")).lead[0] == "No data."


def test_a_later_capture_is_told_against_the_first() -> None:
    assert list_figures(list(build_document(sample_loops.with_capture()).lead)[-1]) == ["3.1", "1.50×"]


def test_columns_compare_only_where_there_is_something_to_compare_with() -> None:
    for analysis in (sample_loops.alone(), sample_loops.with_capture()):  # a capture is no choice
        table = blocks(build_document(analysis))["variants"]
        assert titles(table) == ["Loop", "Step time", "Data wait", "tokens/s", "Peak memory", "MFU"]


def test_facts_of_the_watching_are_told_in_words() -> None:
    facts = dict(loop_facts.list_facts(sample_loops.LOOP))
    assert list_figures(facts["Steps"].text) == ["60", "11", "71"]
    assert facts["Steps"].detail
    assert list_figures(facts["Per step"].text) == ["4", "4", "1"]
    assert list_figures(facts["Per step"].detail) == ["4"]
    assert facts["Data wait share"].text == "31.2 %"
    none = CountPerStep(median=0.0, min=0, max=0)
    by_method = dict(loop_facts.list_facts(msgspec.structs.replace(sample_loops.LOOP, forwards=none)))
    assert list_figures(by_method["Per step"].text)[:1] == ["4"]
    (excluded,) = (cell for title, cell in facts.items() if title.startswith("Excluded "))
    assert list_figures(excluded.text) == ["2", "1.40 s"]
    assert list_figures(facts["During tracing"].text) == ["1.31×", "30.7 ms", "3"]
    assert facts["Samples per step"].text == "16"
    assert "Triggered by" not in facts


def test_what_is_not_known_of_the_watching_says_why() -> None:
    (variant,) = sample_loops.out_of_memory().variants
    assert variant.loop is not None
    facts = dict(loop_facts.list_facts(variant.loop))
    assert list_figures(facts["Steps"].text) == ["3"]
    assert facts["Per step"].reason == "no timed steps"
    assert facts["Data wait share"].reason == NO_LOADER
    assert not any(name.endswith(" per step") for name in facts)  # nobody counted what was not timed
    unknown = msgspec.structs.replace(sample_loops.LOOP, units_source="unknown: no DataLoader", unit="")
    facts = dict(loop_facts.list_facts(msgspec.structs.replace(unknown, units_per_step=0.0)))
    assert facts["Samples per step"].reason == "no DataLoader"


def test_counts_that_vary_are_a_span_and_a_gan_accumulates_nothing() -> None:
    varying = msgspec.structs.replace(
        sample_loops.LOOP, backwards=CountPerStep(median=3.0, min=2, max=4), microbatches=None, forwards=None
    )
    facts = dict(loop_facts.list_facts(varying))
    assert list_figures(facts["Per step"].text) == ["2", "4", "1"]
    assert facts["Per step"].detail == ""
    cheap = Slowdown(instrument="trace", seconds=0.1, ratio=2.0, steps=1)
    assert list_figures(loop_facts.describe_slowdown(cheap)) == ["2.00×", "100 ms"]
    costly = Slowdown(instrument="trace", seconds=0.1, ratio=2.0, steps=1, pause_s=4.6, peak_bytes=3 * 2**20)
    assert "4.60 s" in loop_facts.describe_slowdown(costly)
    assert "3.00 MiB" in loop_facts.describe_slowdown(costly)


def test_it_has_a_section_on_the_watching_and_none_on_trade_offs() -> None:
    told = build_document(sample_loops.alone())
    assert [section.id for section in told.sections] == [
        "why", "findings", "traced", "memory", "samples", "watched", "environment",
    ]  # fmt: skip
    text = Page(html.render(told)).text
    for part in ("Step boundary", "the steps of AdamW", "4 microbatches", "31.2 %"):
        assert part in text
    for part in ("baseline", "Speed-up", "Applied", "Verdict"):
        assert part not in text


def test_ranks_have_a_table_where_there_are_several() -> None:
    found = blocks(build_document(sample_loops.with_capture()))
    assert "watched-1-ranks" not in found
    assert column(found["watched-0-ranks"], "Step time") == ["23.4 ms", "23.1 ms"]
    assert column(found["watched-0-ranks"], "Data wait share") == ["31.2 %", "0.9 %"]


def test_a_run_that_failed_early_says_what_is_missing_and_why() -> None:
    text = Page(html.render(build_document(sample_loops.out_of_memory()))).text
    assert "after 3 steps" in text
    assert {"no-trace"} <= {*blocks(build_document(sample_loops.out_of_memory()))} or "was traced" in text
    assert {"2.00 GiB"} <= {*list_figures(text)}


def test_hostile_words_form_no_tag() -> None:
    made = Page(html.render(build_document(sample_loops.hostile())))
    assert made.intruders() == []
    assert HOSTILE in made.text


def test_markdown_tells_how_it_was_watched() -> None:
    text = markdown.render(build_document(sample_loops.alone()))
    assert "4 microbatches" in text
    assert "n/a" not in text.split("## Recording")[1].split("##")[0]


@pytest.mark.parametrize("name", ["alone", "with_capture", "out_of_memory"])
def test_the_terminal_fits_and_tells_what_is_doubtful(name: str) -> None:
    text = printed(getattr(sample_loops, name)())
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "AdamW" in text
    assert ("Caveats: " in text) == (name == "out_of_memory")


def test_tables_carry_the_waiting() -> None:
    def variants(analysis: Analysis) -> Any:
        return next(data for data in build_document(analysis).data if data.name == "variants").rows()

    (row,) = variants(sample_loops.alone())
    assert (row["data_wait_s"], row["data_wait_share"]) == (0.0073, 0.312)
    (row, *_) = variants(sample_loops.out_of_memory())
    assert row["data_wait_s"] is None


def test_the_headline_tells_waiting_as_timed_and_not_again_as_traced() -> None:
    split = tuple(
        TimeShare(category=category, seconds=share * 0.03, share=share)
        for category, share in (("waiting for data", 0.4), ("memory-bound", 0.3), ("Python and dispatch", 0.3))
    )
    headline = build_document(with_split(*split)).headline
    assert list_figures(headline)[1:] == ["31 %", "30 %", "30 %"]
    assert headline.index("30 % memory-bound") < headline.index("30 % Python")
    unknown = msgspec.structs.replace(sample_loops.LOOP, data_wait_share=None)
    assert ": 40 % waiting for data, 30 %" in build_document(with_split(*split, loop=unknown)).headline


def test_a_loop_that_ended_well_before_a_step_was_timed_says_what_to_do_once() -> None:
    (variant,) = sample_loops.out_of_memory().variants
    short = msgspec.structs.replace(
        sample_loops.out_of_memory(),
        variants=(msgspec.structs.replace(variant, status=RunStatus.OK, reason="", traceback=""),),
    )
    assert [list_figures(line) for line in list(build_document(short).lead)] == [["3"]]
    assert printed(short).count("before the trace") == 1
    text = Page(html.render(build_document(short))).text
    assert "Nothing was found" not in text


def test_a_loop_that_got_slower_while_it_was_watched_says_so_first() -> None:
    seen = LiveSummary(steps=2000, first_s=0.0234, last_s=0.0702)
    slower = first_with(loop=msgspec.structs.replace(sample_loops.LOOP, live_log=seen))
    assert ["70.2 ms"] in [list_figures(line) for line in build_document(slower).lead]
    steady = msgspec.structs.replace(seen, last_s=0.0235)
    same = first_with(loop=msgspec.structs.replace(sample_loops.LOOP, live_log=steady))
    assert not any("beginning" in line for line in list(build_document(same).lead))


def test_a_reason_is_told_once() -> None:
    assert printed(sample_loops.out_of_memory()).count("2.00 GiB") == 1


def test_parts_of_no_time_have_no_bar() -> None:
    split = tuple(
        TimeShare(category=category, seconds=share, share=share)
        for category, share in (("copies", 0.0), ("memory-bound", 0.6), ("Python and dispatch", 0.4))
    )
    bars = blocks(build_document(with_split(*split)))["time-split"]
    assert isinstance(bars, Bars)
    assert bars.bars[0].categories == ["memory-bound", "Python and dispatch"]
    assert ">copies<" not in html.render(build_document(with_split(*split)))


def test_each_step_shows_what_of_it_was_waiting() -> None:
    (variant,) = sample_loops.alone().variants
    waits = tuple(step / 2 for step in variant.step_samples[0])
    waiting = first_with(loop=msgspec.structs.replace(sample_loops.LOOP, data_waits_s=waits))
    chart = blocks(build_document(waiting))["step-times"]
    assert isinstance(chart, Chart)
    steps, waited, _ = chart.figure["data"]
    assert waited["x"] == pytest.approx([x / 2 for x in steps["x"]], abs=1e-4)
    assert waited["y"] == steps["y"]


def test_findings_of_several_ranks_say_which() -> None:
    assert "[train]" not in printed(sample_loops.alone())
    assert "[train]" in printed(first_with(world_size=2))


def test_what_was_planned_stands_beside_what_was_measured_with_what_both_have_in_common() -> None:
    basis = "baseline of train.py:build, which has the same device cpu, bytes of parameters 4,000 in fp32"
    figure = PredictedFigure(predicted=Interval(value=440, low=440, high=440), measured=400, error=0.1)
    held = Prediction(planned_at="2026-01-31T11:00:00+00:00", planned_before_run=True, peak=figure, basis=basis)
    found = build_document(first_with(prediction=held))
    assert column(blocks(found)["predictions"], "Peak error") == ["+10.0 %"]
    (section,) = (section for section in found.sections if section.id == "predicted")
    assert basis in section.intro[1]
    assert "predictions" in {data.name for data in found.data}
