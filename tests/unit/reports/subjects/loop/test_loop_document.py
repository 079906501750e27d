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
from perfkit.record import RunStatus
from perfkit_reports.document.blocks import Bars, Chart
from perfkit_reports.render import html, markdown, terminal
from perfkit_reports.subjects.loop import loop_facts
from perfkit_reports.subjects.suite.cells import NO_LOADER
from perfkit_reports.subjects.suite.document import build_document
from tests.fixtures import sample_loops
from tests.fixtures.document_blocks import blocks, column, titles
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
    assert build_document(sample_loops.alone()).headline == (
        "train takes 23.4 ms a step, 31 % waiting for data; traced: 45 % Python, dispatch and waiting, "
        "40 % memory-bound."
    )
    assert list(build_document(sample_loops.alone()).lead) == [
        "While traced, steps took 1.31× as long: the parts are those of traced steps, and gains are scaled down to "
        "timed ones."
    ]


def test_recording_is_never_said_to_make_steps_faster() -> None:
    """L-BFGS evaluates as often as it likes: steps differ in length."""
    (slowdown, *others) = sample_loops.LOOP.slowdowns
    shorter = msgspec.structs.replace(slowdown, seconds=0.008, ratio=0.34)
    loop = msgspec.structs.replace(sample_loops.LOOP, slowdowns=(shorter, *others))
    (lead,) = build_document(first_with(loop=loop)).lead
    assert lead.startswith("The traced steps were shorter than timed ones (0.34×): steps of this loop differ in length")
    told = loop_facts.describe_slowdown(shorter)
    assert told.startswith("8.00 ms, median of 3, less than a timed step (23.5 ms): its steps differ in length")


def test_the_headline_of_a_loop_that_waits_for_nothing_and_was_not_traced() -> None:
    idle = msgspec.structs.replace(sample_loops.LOOP, data_wait_share=0.01)
    assert build_document(first_with(loop=idle)).headline.startswith(
        "train takes 23.4 ms a step: 45 % Python, dispatch and waiting"
    )
    assert build_document(first_with(loop=idle, trace=None)).headline == "train takes 23.4 ms a step."
    assert build_document(first_with(trace=None)).headline == "train takes 23.4 ms a step: 31 % waiting for data."


def test_the_headline_tells_how_a_loop_ended_that_did_not_end_well() -> None:
    assert build_document(sample_loops.out_of_memory()).headline == (
        "train ran out of memory after 3 steps, before a step was timed."
    )
    failed = build_document(first_with(status=RunStatus.FAILED, reason="ValueError: no data", trace=None)).headline
    assert failed == "train takes 23.4 ms a step: 31 % waiting for data; it ended with an error after 71 steps."
    assert build_document(first_with(status=RunStatus.FAILED, reason="no data")).lead[0] == "No data."


def test_a_later_capture_is_told_against_the_first() -> None:
    assert list(build_document(sample_loops.with_capture()).lead)[-1] == (
        "Captured later, train@step1234 (a step of 3.1 times the usual) takes 1.50× the step time of train."
    )


def test_columns_compare_only_where_there_is_something_to_compare_with() -> None:
    for analysis in (sample_loops.alone(), sample_loops.with_capture()):  # a capture is no choice
        table = blocks(build_document(analysis))["variants"]
        assert titles(table) == ["Loop", "Step time", "Data wait", "tokens/s", "Peak memory", "MFU"]


def test_facts_of_the_watching_are_told_in_words() -> None:
    facts = dict(loop_facts.list_facts(sample_loops.LOOP))
    assert facts["Steps"].text == "60 timed, from step 11 on; 71 watched"
    assert "not counted" in facts["Steps"].detail
    assert facts["In a step"].text == "4 forward passes, 4 backward passes, 1 optimizer step"
    assert facts["In a step"].detail == "gradients of 4 microbatches are accumulated"
    assert facts["Waiting for data, of the time"].text == "31.2 %"
    none = CountPerStep(median=0.0, least=0, most=0)
    by_method = dict(loop_facts.list_facts(msgspec.structs.replace(sample_loops.LOOP, forwards=none)))
    assert by_method["In a step"].text.startswith("forward passes not seen: no model was called as a module, 4 back")
    assert facts["Left out of the step time"].text == "2 steps with an evaluation, of up to 1.40 s"
    assert facts["While traced"].text == "1.31× the time of a timed step: 30.7 ms, median of 3"
    assert facts["Samples in a step"].text == "16"
    assert "Triggered by" not in facts


def test_what_is_not_known_of_the_watching_says_why() -> None:
    (variant,) = sample_loops.out_of_memory().variants
    assert variant.loop is not None
    facts = dict(loop_facts.list_facts(variant.loop))
    assert facts["Steps"].text == "none timed of 3 watched"
    assert facts["In a step"].reason == "no step was timed"
    assert facts["Waiting for data, of the time"].reason == NO_LOADER
    assert not any("in a step" in name and "In" not in name for name in facts)  # nobody counted what was not timed
    unknown = msgspec.structs.replace(sample_loops.LOOP, units_source="not known: no DataLoader was used", unit="")
    facts = dict(loop_facts.list_facts(msgspec.structs.replace(unknown, units_per_step=0.0)))
    assert facts["Samples in a step"].reason == "no DataLoader was used"


def test_counts_that_vary_are_a_span_and_a_gan_accumulates_nothing() -> None:
    varying = msgspec.structs.replace(
        sample_loops.LOOP, backwards=CountPerStep(median=3.0, least=2, most=4), microbatches=None, forwards=None
    )
    facts = dict(loop_facts.list_facts(varying))
    assert facts["In a step"].text == "2 to 4 backward passes, 1 optimizer step"
    assert facts["In a step"].detail == ""
    assert loop_facts.describe_slowdown(Slowdown(instrument="trace", seconds=0.1, ratio=2.0, steps=1)).endswith(
        "100 ms"
    )
    costly = Slowdown(instrument="trace", seconds=0.1, ratio=2.0, steps=1, pause_s=4.6, peak_bytes=3 * 2**20)
    assert "the loop stood still for 4.6" in loop_facts.describe_slowdown(costly)
    assert "peak memory rose by 3" in loop_facts.describe_slowdown(costly)


def test_it_has_a_section_on_the_watching_and_none_on_trade_offs() -> None:
    told = build_document(sample_loops.alone())
    assert [section.id for section in told.sections] == [
        "findings", "roofline", "time", "memory", "savings", "samples", "watched", "environment",
    ]  # fmt: skip
    text = Page(html.render(told)).text
    for part in ("How this loop was watched", "the steps of AdamW", "gradients of 4 microbatches", "31.2 %"):
        assert part in text
    for part in ("baseline", "Speed-up", "Verified active", "Verdict"):
        assert part not in text


def test_ranks_have_a_table_where_there_are_several() -> None:
    found = blocks(build_document(sample_loops.with_capture()))
    assert "watched-1-ranks" not in found
    assert column(found["watched-0-ranks"], "Step time") == ["23.4 ms", "23.1 ms"]
    assert column(found["watched-0-ranks"], "Share of the time") == ["31.2 %", "0.9 %"]


def test_a_run_that_failed_early_says_what_is_missing_and_why() -> None:
    text = Page(html.render(build_document(sample_loops.out_of_memory()))).text
    assert "the loop ended after 3 steps, before the trace" in text
    assert "No step of the loop was traced" in text
    assert "ried to allocate 2.00 GiB" in text


def test_hostile_words_form_no_tag() -> None:
    made = Page(html.render(build_document(sample_loops.hostile())))
    assert made.intruders() == []
    assert HOSTILE in made.text


def test_markdown_tells_how_it_was_watched() -> None:
    text = markdown.render(build_document(sample_loops.alone()))
    assert "gradients of 4 microbatches are accumulated" in text
    assert "n/a" not in text.split("## How this loop was watched")[1].split("##")[0]


@pytest.mark.parametrize("name", ["alone", "with_capture", "out_of_memory"])
def test_the_terminal_fits_and_tells_what_is_doubtful(name: str) -> None:
    text = printed(getattr(sample_loops, name)())
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "a step ends with the steps of AdamW" in text
    assert ("! Caveats: the loop ended after 3 steps" in text) == (name == "out_of_memory")


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
    assert build_document(with_split(*split)).headline.endswith(
        "31 % waiting for data; traced: 30 % memory-bound, 30 % Python and dispatch."
    )
    unknown = msgspec.structs.replace(sample_loops.LOOP, data_wait_share=None)
    assert ": 40 % waiting for data, 30 %" in build_document(with_split(*split, loop=unknown)).headline


def test_a_loop_that_ended_well_before_a_step_was_timed_says_what_to_do_once() -> None:
    (variant,) = sample_loops.out_of_memory().variants
    short = msgspec.structs.replace(
        sample_loops.out_of_memory(),
        variants=(msgspec.structs.replace(variant, status=RunStatus.OK, reason="", traceback=""),),
    )
    assert list(build_document(short).lead) == ["The loop ended after 3 steps, before the trace."]
    assert printed(short).count("before the trace") == 1
    text = Page(html.render(build_document(short))).text
    assert "nothing yet to find anything in" in text
    assert "Nothing was found" not in text


def test_a_loop_that_got_slower_while_it_was_watched_says_so_first() -> None:
    seen = LiveSummary(steps=2000, first_s=0.0234, last_s=0.0702)
    slower = first_with(loop=msgspec.structs.replace(sample_loops.LOOP, watched=seen))
    assert "These are figures of its beginning; at its end steps took 70.2 ms." in list(build_document(slower).lead)
    steady = msgspec.structs.replace(seen, last_s=0.0235)
    same = first_with(loop=msgspec.structs.replace(sample_loops.LOOP, watched=steady))
    assert not any("beginning" in line for line in list(build_document(same).lead))


def test_a_reason_is_told_once() -> None:
    assert printed(sample_loops.out_of_memory()).count("tried to allocate 2.00 GiB") == 1


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
    held = Prediction(planned_at="2026-01-31T11:00:00+00:00", beforehand=True, peak=figure, basis=basis)
    found = build_document(first_with(prediction=held))
    assert column(blocks(found)["predictions"], "Peak off by") == ["+10.0 %"]
    (section,) = (section for section in found.sections if section.id == "predicted")
    assert section.intro[1] == f"Held against the plan of {basis}."
    assert "predictions" in {data.name for data in found.data}
