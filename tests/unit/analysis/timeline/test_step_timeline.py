"""A step event by event, against a trace whose times can be added up by hand."""

from pathlib import Path

import pytest

from perfkit.analysis.model import idle
from perfkit.analysis.model import timeline as words
from perfkit.analysis.model.time_split import UNRECORDED
from perfkit.analysis.timeline import dense_slices
from perfkit.analysis.timeline.lane_columns import unpack_lane
from perfkit.analysis.timeline.step_timeline import WINDOW
from perfkit.core.errors import UsageError
from tests.fixtures.gpu_traces import training_events
from tests.fixtures.step_timelines import lane, shown, slice_at, steps_of
from tests.fixtures.traces import Event, kernel, launch, mark, memory, op

MM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"


def test_kernels_lie_on_their_streams_with_the_op_and_the_launch_that_they_come_from(tmp_path: Path) -> None:
    (step,) = steps_of(tmp_path, training_events(1))
    assert (step.number, step.selection) == (1, "")
    product, added = shown(step, lane(step, words.STREAM, "stream 7"))
    assert (product.name, product.start_us, product.end_us) == (MM, 30, 130)
    assert (product.op, product.kind, product.shapes) == ("aten::mm", "GEMM", "bf16[2048,2048] bf16[2048,2048]")
    assert slice_at(step, product.link).name == "cudaLaunchKernel"
    assert slice_at(step, product.link).start_us == 15
    assert slice_at(step, added.link).start_us == 35
    (reduced,) = shown(step, lane(step, words.STREAM, "stream 9"))
    assert reduced.kind == "communication"


def test_ops_and_calls_nest_on_the_thread(tmp_path: Path) -> None:
    step = steps_of(tmp_path, training_events(1))[0]
    thread = shown(step, lane(step, words.THREAD))
    assert [(each.name, each.depth, each.kind) for each in thread[:3]] == [
        ("ProfilerStep#1", 0, "range"),
        ("aten::mm", 1, "GEMM"),
        ("cudaLaunchKernel", 2, "runtime call"),
    ]
    assert lane(step, words.THREAD).busy_ns == 400_000


def test_a_device_is_idle_where_none_of_its_streams_works_and_waits_for_the_next_launch(tmp_path: Path) -> None:
    step = steps_of(tmp_path, training_events(1))[0]
    gaps = shown(step, lane(step, words.IDLE))
    assert [(gap.start_us, gap.end_us, gap.kind) for gap in gaps] == [
        (0, 30, UNRECORDED),
        (130, 140, idle.BETWEEN),
        (160, 250, idle.OTHER_STREAM),
        (300, 400, idle.AT_THE_END),
    ]
    assert slice_at(step, gaps[1].link).start_us == 35
    assert gaps[3].link == -1
    busy = sum(end - start for start, end in [(30, 130), (140, 160), (250, 300)])
    assert sum(gap.end_us - gap.start_us for gap in gaps) + busy == 400


def test_an_idle_time_comes_from_the_call_that_it_is_charged_to_and_tells_where_the_host_was(tmp_path: Path) -> None:
    wait = {**launch(99, 140, 60), "name": "cudaStreamSynchronize", "args": {}}
    events = [
        mark("ProfilerStep#1", 0, 400), op("aten::a", 0, 10), launch(1, 5), kernel("k", 1, 20, 100),
        op("aten::item", 135, 70), wait, op("aten::b", 230, 10), launch(2, 235), kernel("k", 2, 250, 90),
    ]  # fmt: skip
    step = steps_of(tmp_path, events)[0]
    (waited,) = [gap for gap in shown(step, lane(step, words.IDLE)) if gap.kind == idle.SYNC]
    assert slice_at(step, waited.link).name == "cudaStreamSynchronize"
    assert "cudaStreamSynchronize in aten::item" in waited.shapes


def test_the_critical_path_lies_on_kernels_and_on_what_the_host_was_in(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 0, 60), op("aten::mm", 0, 10, [(4, 4), (4, 4)]), launch(1, 5),
        kernel("gemm", 1, 20, 1000), kernel("k", 2, 1021, 500), op("aten::b", 20, 10), launch(2, 22),
    ]  # fmt: skip
    (step,) = steps_of(tmp_path, events)
    path = shown(step, lane(step, words.PATH))
    assert [(each.name, each.end_us - each.start_us) for each in path if each.name in ("GEMM", "other kernels")] == [
        ("GEMM", 1000),
        ("other kernels", 500),
    ]
    on = {each.name: slice_at(step, each.link).name for each in path if each.link >= 0}
    assert (on["GEMM"], on["other kernels"]) == ("gemm", "k")
    assert sum(each.end_us - each.start_us for each in path) == step.length_ns / 1e3  # they tile the step


def test_collectives_tell_what_they_exchanged(tmp_path: Path) -> None:
    step = steps_of(tmp_path, training_events(1))[0]
    (reduced,) = shown(step, lane(step, words.COLLECTIVES))
    assert reduced.shapes.split(", ") == ["allreduce", "8.00 MiB", "BFloat16", "default_pg"]
    assert (reduced.start_us, reduced.end_us) == (250, 300)


def test_the_median_step_comes_first_then_the_slowest_and_the_fastest(tmp_path: Path) -> None:
    events: list[Event] = []
    at = 0.0
    for number, length in enumerate([100.0, 140.0, 120.0, 110.0], 1):
        events += [mark(f"ProfilerStep#{number}", at, length), op("aten::mm", at + 5, 20, [(4, 4), (4, 4)])]
        at += length
    steps = steps_of(tmp_path, events)
    assert [(step.number, step.selection, step.length_ns) for step in steps] == [
        (4, "median", 110_000),
        (2, "slowest", 140_000),
        (1, "fastest", 100_000),
    ]
    assert [round(step.start_s * 1e6) for step in steps] == [360, 100, 0]


def test_a_window_is_shown_instead_of_steps(tmp_path: Path) -> None:
    events = [event for number in range(4) for event in (mark(f"ProfilerStep#{number}", 100 * number, 100),)]
    events += [op("aten::mm", 100 * number + 5, 20, [(4, 4), (4, 4)]) for number in range(4)]
    (step,) = steps_of(tmp_path, events, window=(90e-6, 210e-6))
    assert (step.number, step.selection, step.length_ns) == (None, WINDOW, 120_000)
    products = [each for each in shown(step, lane(step, words.THREAD)) if each.name == "aten::mm"]
    assert [(each.start_us, each.end_us) for each in products] == [(15, 35), (115, 135)]


def test_a_window_outside_the_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--window"):
        steps_of(tmp_path, [op("aten::mm", 0, 20, [(4, 4), (4, 4)])], window=(1.0, 2.0))


def test_a_trace_without_steps_is_shown_whole(tmp_path: Path) -> None:
    (step,) = steps_of(tmp_path, [op("aten::mm", 10, 20, [(4, 4), (4, 4)]), op("aten::relu", 50, 10, [(4, 4)])])
    assert (step.number, step.selection, step.length_ns) == (None, "", 50_000)
    assert step.lanes[-1].kind == words.THREAD


def test_what_began_before_the_step_keeps_its_length(tmp_path: Path) -> None:
    frame = {**mark("train.py(3): main", 0, 1000), "cat": "python_function"}
    steps = [mark(f"ProfilerStep#{number}", number * 200, 150) for number in (1, 2, 3)]
    work = [op("aten::mm", number * 200 + 10, 20, [(4, 4), (4, 4)]) for number in (1, 2, 3)]
    step = steps_of(tmp_path, [frame, *steps, *work])[0]
    main = shown(step, lane(step, words.THREAD))[0]
    assert (main.name, main.kind, main.end_us - main.start_us) == ("train.py(3): main", "Python", 1000)
    assert main.start_us < 0
    assert lane(step, words.THREAD).busy_ns == step.length_ns


def test_modules_nest_and_last_from_their_first_op_to_the_end_of_the_last(tmp_path: Path) -> None:
    modules = [
        {**mark(name, start, length), "cat": "python_function"}
        for name, start, length in (
            ("nn.Module: GPT_0", 0, 100),
            ("nn.Module: Block_0", 10, 40),
            ("nn.Module: Block_1", 50, 40),
        )
    ]
    ops = [op("aten::relu", start, 10, [(4, 4)]) for start in (2, 12, 30, 55)]
    (step,) = steps_of(tmp_path, [*modules, *ops])
    found = shown(step, lane(step, words.MODULES))
    assert [(each.name, each.start_us, each.end_us, each.depth) for each in found] == [
        ("GPT_0", 0, 63, 0),  # the trace begins with the op at 2
        ("GPT_0/Block_0", 10, 38, 1),
        ("GPT_0/Block_1", 53, 63, 1),
    ]


def test_phases_are_those_that_were_marked(tmp_path: Path) -> None:
    marks = [mark("perfkit::forward", 0, 40), mark("perfkit::backward", 40, 60)]
    (step,) = steps_of(tmp_path, [*marks, op("aten::relu", 5, 10, [(4, 4)])])
    found = [(each.name, each.start_us, each.end_us) for each in shown(step, lane(step, words.PHASES))]
    assert found == [("forward", 0, 40), ("backward", 40, 100)]


def test_a_link_to_a_merged_slice_leads_to_what_it_is_drawn_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = steps_of(tmp_path, training_events(2))[0]
    monkeypatch.setattr(dense_slices, "MOST_SLICES", 3)
    dense = steps_of(tmp_path, training_events(2))[0]
    links = [link for each in dense.lanes for link in unpack_lane(each).link.tolist()]
    assert max(links) < sum(len(unpack_lane(each)) for each in dense.lanes)
    assert [each.slices for each in dense.lanes] == [each.slices for each in whole.lanes]
    assert [each.busy_ns for each in dense.lanes] == [each.busy_ns for each in whole.lanes]


def test_the_step_itself_is_marked_in_what_is_shown(tmp_path: Path) -> None:
    for step in steps_of(tmp_path, training_events(3)):
        assert 0 <= step.step_begin_ns < step.step_end_ns <= step.length_ns


def test_a_trace_of_no_event_that_is_shown_has_no_lanes(tmp_path: Path) -> None:
    (step,) = steps_of(tmp_path, [{**kernel("a range", 1, 0, 10), "cat": "gpu_user_annotation"}])
    assert (step.lanes, step.slices) == ((), 0)


def test_a_name_of_any_length_does_not_fill_the_report(tmp_path: Path) -> None:
    (step,) = steps_of(tmp_path, [op("aten::relu" + "x" * 100_000, 0, 10, [(4, 4)])])
    assert max(map(len, step.texts)) < 2_100


def test_memory_keeps_every_maximum_of_its_line(tmp_path: Path) -> None:
    events = [op("aten::relu", 0, 3000, [(4, 4)])]
    for place in range(1000):
        total = 5_000 if place == 501 else 100 + place % 7
        events.append(memory(3 * place, 64, 8, 1, total))
    (step,) = steps_of(tmp_path, events)
    (line,) = step.memory
    held = [int(part) for part in line.bytes.split()]
    assert line.device == "cuda:0"
    assert len(held) <= 800
    assert max(sum(held[: place + 1]) for place in range(len(held))) == 5_000


def test_lanes_hold_as_many_slices_as_they_say(tmp_path: Path) -> None:
    step = steps_of(tmp_path, training_events(2))[0]
    assert all(len(unpack_lane(each)) == each.slices for each in step.lanes)
    assert step.slices == sum(len(unpack_lane(each)) for each in step.lanes)
    order = [words.LANES.index(each.kind) for each in step.lanes]
    assert order == sorted(order)


def test_kernels_of_two_devices_have_lanes_of_their_own(tmp_path: Path) -> None:
    other = kernel("k", 2, 60, 10)
    other["args"]["device"] = 1
    events = [op("aten::a", 0, 30), launch(1, 5), launch(2, 8), kernel("k", 1, 10, 10), other, kernel("k", 3, 90, 10)]
    (step,) = steps_of(tmp_path, events)
    names = [each.name for each in step.lanes if each.kind == words.STREAM]
    assert names == ["device 0, stream 7", "device 1, stream 7"]
