"""The report of a loop that perfkit was attached to, in every form."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from perfkit.analysis.model.loop import PerStep, Slowdown, Watched
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace import RankTrace
from perfkit.record import Status
from perfkit_reports import headline, html, markdown, static, tables, terminal, watched
from perfkit_reports.figures.steps import step_times
from perfkit_reports.summary_columns import summary_columns
from tests.fixtures import sample_loops
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE, realistic


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(html.render(sample_loops.alone()))


def printed(analysis: Analysis) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    terminal.render(analysis, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def split_into(split: tuple[TimeShare, ...]) -> RankTrace:
    """The sample's trace with another split of its step."""
    trace = sample_loops.alone().variants[0].trace
    assert trace is not None
    return msgspec.structs.replace(trace, time_split=split)


def first_with(**fields: Any) -> Analysis:
    whole = sample_loops.alone()
    return msgspec.structs.replace(whole, variants=(msgspec.structs.replace(whole.variants[0], **fields),))


def test_the_headline_tells_step_time_waiting_and_the_largest_parts() -> None:
    assert headline.headline(sample_loops.alone()) == (
        "train takes 23.4 ms a step, 31 % waiting for data; traced: 45 % the host's (Python, dispatch, waiting), "
        "40 % memory-bound."
    )
    assert headline.remarks(sample_loops.alone()) == [
        "While traced, steps took 1.31× as long: the parts are those of traced steps, and gains are scaled down to "
        "timed ones."
    ]


def test_the_headline_of_a_loop_that_waits_for_nothing_and_was_not_traced() -> None:
    idle = msgspec.structs.replace(sample_loops.LOOP, data_wait_share=0.01)
    assert headline.headline(first_with(loop=idle)).startswith("train takes 23.4 ms a step: 45 % the host's")
    assert headline.headline(first_with(loop=idle, trace=None)) == "train takes 23.4 ms a step."
    assert headline.headline(first_with(trace=None)) == "train takes 23.4 ms a step: 31 % waiting for data."


def test_the_headline_tells_how_a_loop_ended_that_did_not_end_well() -> None:
    assert headline.headline(sample_loops.out_of_memory()) == (
        "train ran out of memory after 3 steps, before a step was timed."
    )
    failed = headline.headline(first_with(status=Status.FAILED, reason="ValueError: no data", trace=None))
    assert failed == "train takes 23.4 ms a step: 31 % waiting for data; it ended with an error after 71 steps."
    assert headline.remarks(first_with(status=Status.FAILED, reason="no data"))[0] == "No data."


def test_a_later_capture_is_told_against_the_first() -> None:
    assert headline.remarks(sample_loops.with_capture())[-1] == (
        "Captured later, train@step1234 (a step of 3.1 times the usual) takes 1.50× the step time of train."
    )


def test_columns_compare_only_where_there_is_something_to_compare_with() -> None:
    titles = [column.title for column in summary_columns(sample_loops.alone())]
    assert titles == ["Step time", "Waits for data", "Throughput", "Peak memory", "MFU"]
    titles = [column.title for column in summary_columns(sample_loops.with_capture())]
    assert titles == ["Step time", "Waits for data", "Throughput", "Peak memory", "MFU"]  # a capture is no choice


def test_facts_of_the_watching_are_told_in_words() -> None:
    facts = dict(watched.facts(sample_loops.LOOP))
    assert facts["Steps"].text == "60 timed, from step 11 on; 71 seen"
    assert facts["In a step"].text == "4 forward passes, 4 backward passes, 1 optimizer step"
    assert facts["In a step"].detail == "gradients of 4 microbatches are accumulated"
    assert facts["Waiting for data"].text == "31.2 % of the time"
    assert facts["Left out of the step time"].text == "2 steps with an evaluation, of up to 1.40 s"
    assert facts["While traced"].text == "1.31× the time of a timed step: 30.7 ms, median of 3"
    assert facts["Samples in a step"].text == "16"
    assert "Triggered by" not in facts


def test_what_is_not_known_of_the_watching_says_why() -> None:
    (variant,) = sample_loops.out_of_memory().variants
    assert variant.loop is not None
    facts = dict(watched.facts(variant.loop))
    assert facts["Steps"].text == "none timed of 3 seen"
    assert facts["In a step"].reason == "no step was timed"
    assert facts["Waiting for data"].reason == watched.NO_LOADER
    assert not any("in a step" in name and "In" not in name for name in facts)  # nobody counted what was not timed
    unknown = msgspec.structs.replace(sample_loops.LOOP, units_source="not known: no DataLoader was used", unit="")
    facts = dict(watched.facts(msgspec.structs.replace(unknown, units_per_step=0.0)))
    assert facts["Samples in a step"].reason == "no DataLoader was used"


def test_counts_that_vary_are_a_span_and_a_gan_accumulates_nothing() -> None:
    varying = msgspec.structs.replace(
        sample_loops.LOOP, backwards=PerStep(median=3.0, least=2, most=4), microbatches=None, forwards=None
    )
    facts = dict(watched.facts(varying))
    assert facts["In a step"].text == "2 to 4 backward passes, 1 optimizer step"
    assert facts["In a step"].detail == ""
    assert watched.slowdown(Slowdown(instrument="trace", seconds=0.1, ratio=2.0, steps=1)).endswith("100 ms")


def test_the_page_has_a_section_on_the_watching_and_none_on_trade_offs(page: Page) -> None:
    ids = [attributes.get("id") for tag, attributes in page.tags if tag == "section"]
    assert ids == [
        "summary", "findings", "roofline", "time", "memory", "ops", "samples", "watched", "environment",
    ]  # fmt: skip
    for part in ("How this loop was watched", "the steps of AdamW", "gradients of 4 microbatches", "31.2 %"):
        assert part in page.text
    for part in ("baseline", "Speed-up", "Engaged", "Verdict"):
        assert part not in page.text


def test_ranks_have_a_table_where_there_are_several() -> None:
    text = Page(html.render(sample_loops.with_capture())).text
    assert "Ranks of train" in text
    assert "Ranks of train@step1234" not in text
    assert "| 1 | 23.1 ms | 100 us | 0.9 % |" in markdown.render(sample_loops.with_capture())


def test_a_run_that_failed_early_says_what_is_missing_and_why() -> None:
    text = Page(html.render(sample_loops.out_of_memory())).text
    assert "the loop ended after 3 steps, before the trace" in text
    assert "No step of the loop was traced" in text
    assert "tried to allocate 2.00 GiB" in text


def test_hostile_words_form_no_tag_and_the_analysis_comes_back() -> None:
    made = Page(html.render(sample_loops.hostile()))
    assert made.intruders() == []
    assert HOSTILE in made.text
    assert msgspec.json.decode(made.scripts["report-data"], type=Analysis) == sample_loops.hostile()


def test_markdown_tells_the_same() -> None:
    text = markdown.render(sample_loops.alone())
    assert "| Loop | Status | Step time | Waits for data | Throughput | Peak memory | MFU |" in text
    assert "## How train was watched" in text
    assert "gradients of 4 microbatches are accumulated" in text
    assert "n/a" not in text.split("## How train was watched")[1].split("##")[0]


@pytest.mark.parametrize("name", ["alone", "with_capture", "out_of_memory"])
def test_the_terminal_fits_and_tells_what_is_doubtful(name: str) -> None:
    text = printed(getattr(sample_loops, name)())
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "a step ends with the steps of AdamW" in text
    assert ("! the loop ended after 3 steps" in text) == (name == "out_of_memory")
    assert "engaged" not in text


def test_tables_carry_the_waiting() -> None:
    (row,) = tables.tables(sample_loops.alone())["variants"].to_pylist()
    assert (row["data_wait_s"], row["data_wait_share"]) == (0.0073, 0.312)
    (row, *_) = tables.tables(sample_loops.out_of_memory())["variants"].to_pylist()
    assert row["data_wait_s"] is None


def test_the_headline_tells_waiting_as_timed_and_not_again_as_traced() -> None:
    split = tuple(
        TimeShare(category=category, seconds=share * 0.03, share=share)
        for category, share in (("waiting for data", 0.4), ("memory-bound", 0.3), ("host", 0.3))
    )
    assert headline.headline(first_with(trace=split_into(split))).endswith(
        "31 % waiting for data; traced: 30 % memory-bound, 30 % the host's (Python, dispatch)."
    )
    unknown = msgspec.structs.replace(sample_loops.LOOP, data_wait_share=None)
    assert ": 40 % waiting for data, 30 %" in headline.headline(first_with(trace=split_into(split), loop=unknown))


def test_a_loop_that_ended_well_before_a_step_was_timed_says_what_to_do_once() -> None:
    (variant,) = sample_loops.out_of_memory().variants
    short = msgspec.structs.replace(
        sample_loops.out_of_memory(),
        variants=(msgspec.structs.replace(variant, status=Status.OK, reason="", traceback=""),),
    )
    assert headline.remarks(short) == ["The loop ended after 3 steps, before the trace."]
    assert printed(short).count("before the trace") == 1
    text = Page(html.render(short)).text
    assert "nothing yet to find anything in" in text
    assert "Nothing was found" not in text


def test_a_loop_that_got_slower_while_it_was_watched_says_so_first() -> None:
    seen = Watched(steps=2000, first_s=0.0234, last_s=0.0702)
    slower = first_with(loop=msgspec.structs.replace(sample_loops.LOOP, watched=seen))
    assert "These are figures of its beginning; at its end steps took 70.2 ms." in headline.remarks(slower)
    steady = msgspec.structs.replace(seen, last_s=0.0235)
    same = first_with(loop=msgspec.structs.replace(sample_loops.LOOP, watched=steady))
    assert not any("beginning" in line for line in headline.remarks(same))


def test_a_reason_is_told_once() -> None:
    assert printed(sample_loops.out_of_memory()).count("tried to allocate 2.00 GiB") == 1


def test_parts_of_no_time_have_no_column_and_no_place_in_the_legend() -> None:
    split = tuple(
        TimeShare(category=category, seconds=share, share=share)
        for category, share in (("copies", 0.0), ("memory-bound", 0.6), ("host", 0.4))
    )
    analysis = first_with(trace=split_into(split))
    assert "| Loop | memory-bound | host |" in markdown.render(analysis)
    assert ">copies<" not in html.render(analysis)


def test_nothing_to_choose_from_is_drawn_against_nothing() -> None:
    for analysis in (sample_loops.alone(), sample_loops.with_capture()):
        assert not any(name.startswith("pareto") for name, _ in static.images(analysis))
    assert any(name.startswith("pareto") for name, _ in static.images(realistic()))


def test_each_step_shows_what_of_it_was_waiting() -> None:
    (variant,) = sample_loops.alone().variants
    waits = tuple(step / 2 for step in variant.step_samples[0])
    figure = step_times(first_with(loop=msgspec.structs.replace(sample_loops.LOOP, data_waits_s=waits)))
    assert figure is not None
    steps, waited, _ = figure["data"]
    assert waited["x"] == pytest.approx([x / 2 for x in steps["x"]], abs=1e-4)
    assert waited["y"] == steps["y"]


def test_findings_of_several_ranks_say_which() -> None:
    assert "[train]" not in printed(sample_loops.alone())
    assert "[train]" in printed(first_with(world_size=2))
