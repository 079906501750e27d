"""Modules above the timeline, and phases as spans of time."""

from pathlib import Path

from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.memory import phase_spans
from perfkit.trace.memory.phase_spans import build_bands, find_phase_spans
from perfkit.trace.ops.module_calls import find_modules
from perfkit.trace.steps.phases import PhaseIntervals, PhaseRanges
from tests.fixtures.trace_events import Event, event, ops_of, range_, sequence


def found(folder: Path, *events: Event) -> list[tuple[str, int, int]]:
    ops = ops_of(folder, *events)
    made: PhaseIntervals = find_phase_spans(ops, PhaseRanges.from_trace(ops.trace))
    rows = zip(made.phase.tolist(), made.start_ns.tolist(), made.end_ns.tolist(), strict=True)
    return [(PHASES[phase], start // 1000, end // 1000) for phase, start, end in rows]


def node(start: float, number: int) -> Event:
    return event("ReluBackward0", start, 5, tid=2, **sequence(number, backward=True))


def test_a_span_ends_where_the_next_begins_and_never_crosses_a_step(tmp_path: Path) -> None:
    events = [
        range_("ProfilerStep#0", 0, 50),
        range_("ProfilerStep#1", 50, 50),
        *(event("aten::relu", start, 5, **sequence(start)) for start in (10, 20, 60)),
        node(30, 10), node(40, 20), node(70, 60),
    ]  # fmt: skip
    assert found(tmp_path, *events) == [
        ("forward", 10, 25), ("backward", 30, 45), ("forward", 60, 65), ("backward", 70, 75),
    ]  # fmt: skip


def test_ops_that_load_data_on_other_threads_part_no_phase(tmp_path: Path) -> None:
    loading = range_("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 12, 20, tid=9)
    events = [
        range_("ProfilerStep#0", 0, 50),
        *(event("aten::relu", start, 5, **sequence(start)) for start in (10, 20)),
        event("aten::stack", 15, 2, tid=9),
        node(40, 10),
    ]
    assert [phase for phase, _, _ in found(tmp_path, *events)] == ["forward", "backward"]
    assert loading["tid"] == 9


def test_nothing_to_tell_phases_from(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_of_many_modules_the_outermost_of_the_step_in_question_are_named(tmp_path: Path, monkeypatch) -> None:
    def call(name: str, start: float, duration: float) -> Event:
        return event(f"nn.Module: {name}", start, duration, "python_function")

    events = [range_("ProfilerStep#0", 0, 50), range_("ProfilerStep#1", 50, 50)]
    for start in (0, 50):
        events += [call("Model_0", start + 1, 40), *(call(f"Linear_{n}", start + 2 + 5 * n, 4) for n in range(4))]
        events += [event("aten::relu", start + 3, 1)]
    ops = ops_of(tmp_path, *events)
    nothing = find_phase_spans(ops_of(tmp_path), PhaseRanges.from_trace(ops.trace))

    def modules() -> list[tuple[str, int]]:
        made = build_bands(ops, nothing, find_modules(ops.trace), 60_000)
        return [(band.name, band.start_ns // 1000) for band in made if band.kind == "module"]

    assert modules() == [("Model_0", 51), *((f"Model_0/Linear_{n}", 52 + 5 * n) for n in range(4))]
    monkeypatch.setattr(phase_spans, "MOST_MODULES", 4)
    assert modules() == [("Model_0", 51)]
