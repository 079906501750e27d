"""What a report says of steps event by event."""

import base64
import gzip
import json
import re

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.idle import LATE
from perfkit.analysis.model.timeline import StepTimeline
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.timeline.step_timeline import WINDOW
from perfkit_reports.document.blocks import Group, Timeline
from perfkit_reports.document.raw import encode_json
from perfkit_reports.render import html, markdown
from perfkit_reports.render.html import build_timeline_sheet
from perfkit_reports.render.images import render_images
from perfkit_reports.subjects.suite.suite_document import build_document as suite_document
from perfkit_reports.subjects.trace import build_document
from perfkit_reports.subjects.trace import timeline as subject
from tests.fixtures import sample_analysis, step_timelines
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.document_blocks import blocks, column
from tests.fixtures.figures import list_figures


def timeline(analysis: TraceAnalysis) -> Timeline:
    block = blocks(build_document(analysis))["timeline"]
    assert isinstance(block, Timeline)
    return block


def test_steps_are_named_and_the_median_comes_first() -> None:
    assert list(timeline(sample.alone()).steps) == [
        "step 2 (median), 400 us",
        "step 3 (slowest), 500 us",
    ]


def test_of_several_traces_a_step_each_comes_before_any_second_one() -> None:
    names = list(timeline(sample.realistic()).steps)
    assert [name.split(",")[0] for name in names[:3]] == ["rank 0", "main rank 0", "rank 1"]
    assert names[3].startswith("rank 0, step 3 (slowest)")


def test_the_page_has_room_for_the_first_step_and_no_more_than_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "ROOM", 1)
    assert list(timeline(sample.alone()).steps) == ["step 2 (median), 400 us"]


def test_the_lanes_and_the_longest_idle_times_stand_behind_it_as_tables() -> None:
    words = timeline(sample.alone()).words
    assert isinstance(words, Group)
    lanes, idle = words.blocks
    first = step_timelines.samples()[0]
    assert column(lanes, "Lane") == [lane.name for lane in first.lanes]
    assert column(lanes, "Slices") == [str(lane.slices) for lane in first.lanes]
    assert column(idle, "Cause")[0] == LATE
    assert column(idle, "Idle")[0] == "116 us"


def test_formats_without_pictures_have_the_tables() -> None:
    text = markdown.render(build_document(sample.alone()))
    assert re.search(r"Lanes .*2 .*, 400 us", text)
    assert "| stream 9 | 1 |" in text.replace("  ", " ")


def test_a_step_that_is_too_large_says_what_it_lacks() -> None:
    step = replace(step_timelines.samples()[0], merged_slices=12, shortest_ns=40)
    drawn = timeline(sample.alone(timelines=(step,)))
    assert list_figures(drawn.caption)[:2] == ["12", "40.0 ns"]
    (command,) = drawn.commands.values()
    assert f"{command} --window {step.start_s:g}s:" in drawn.caption
    assert build_timeline_sheet(drawn)["commands"] == [command]
    assert timeline(sample.alone()).commands == {}


def test_traced_times_say_how_much_slower_they_are_than_timed_ones() -> None:
    assert timeline(sample.alone()).caption == ""
    assert list_figures(timeline(sample.alone(timed_ratio=0.8)).caption) == ["1.25×"]


def test_names_of_slices_are_short_and_whole_names_stay() -> None:
    drawn = build_timeline_sheet(timeline(sample.alone()))
    assert drawn["short"]["train.py(40): main"] == "main train.py:40"
    assert drawn["short"]["void at::native::vectorized_elementwise_kernel<4>"] == "vectorized_elementwise_kernel<4>"
    packed = gzip.decompress(base64.b64decode(drawn["steps"][0]))
    header = json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])
    assert "train.py(40): main" in header["texts"]


def test_a_window_is_named_by_its_times() -> None:
    window = replace(step_timelines.samples()[0], number=None, selection=WINDOW, start_s=1.2, length_ns=50_000_000)
    assert list(timeline(sample.alone(timelines=(window,))).steps) == ["1.2s to 1.25s of the trace"]


def test_a_page_without_a_timeline_has_no_script_for_it() -> None:
    assert "timelineDrawing" in html.render(build_document(sample.alone()))
    assert "timelineDrawing" not in html.render(build_document(sample.alone(timelines=())))


def test_a_bench_shows_its_traces_and_its_json_leaves_them_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = sample_analysis.realistic()
    steps: tuple[StepTimeline, ...] = step_timelines.samples()
    variants = tuple(
        each if each.trace is None else replace(each, trace=replace(each.trace, timelines=steps))
        for each in analysis.variants
    )
    made = suite_document(replace(analysis, variants=variants))
    assert "timeline" in blocks(made)
    held = json.loads(encode_json(made.raw["report.json"]))
    assert all(not each["trace"]["timelines"] for each in held["variants"] if each["trace"])


def test_files_have_a_still_of_the_whole_step() -> None:
    pytest.importorskip("matplotlib")
    from perfkit_reports.render.matplotlib_timeline import draw_timeline

    drawn = draw_timeline(timeline(sample.alone()))
    (axes,) = drawn.axes
    step = step_timelines.samples()[0]
    assert axes.get_xlim() == (0, pytest.approx(step.length_ns / 1e6))
    assert [label.get_text() for label in axes.get_yticklabels()] == [lane.name for lane in step.lanes]
    assert sum(len(lane.get_paths()) for lane in axes.collections) == step.slices
    images = render_images(build_document(sample.alone()))
    assert next(content for name, content in images if name == "timeline.png").startswith(b"\x89PNG")
