"""The ranks of a pipeline beside each other, on a schedule by hand: GPipe of two ranks and two microbatches."""

from dataclasses import replace
from pathlib import Path

import pytest

from perfkit.analysis.model.fleet import Fleet, Pipeline, RankRow, StageActions
from perfkit.analysis.pipeline.read_passes import _get_clock_offsets
from perfkit.analysis.ranks.pipeline import add_measured_bubbles, build_pipeline
from perfkit.analysis.trace.stage_actions import find_stage_actions
from perfkit.core.record.quantity import Measurement, Unknown
from tests.fixtures.trace_events import event, ops_of, range_

# Ranks, and of each the actions with their beginnings in units of one; a backward pass takes two.
BY_HAND = {0: {"0F0": 0, "0F1": 1, "0B0": 5, "0B1": 7}, 1: {"1F0": 1, "1F1": 2, "1B0": 3, "1B1": 5}}
UNIT, STEP = 100.0, 1_000.0  # us


def traced(folder: Path, rank: int, prefix: str = "perfkit::", torch: str = "") -> StageActions | None:
    """A rank's trace of three steps."""
    events = []
    for step in range(3):
        begin = 10 + step * (STEP + 10)
        events += [range_(f"perfkit::step#{4 + step}", begin, STEP), event("aten::mm", begin, 1.0)]
        for name, start in BY_HAND[rank].items():
            took = UNIT * (2 if "B" in name else 1)
            events.append(range_(prefix + name, begin + UNIT * start, took))
            if torch:
                events.append(range_(torch + name, begin + UNIT * start - 50, took + 50))
    folder.mkdir(exist_ok=True)
    return find_stage_actions(ops_of(folder, *events))


def found(tmp_path: Path, **how: str) -> Pipeline:
    ranks = {rank: traced(tmp_path / str(rank), rank, **how) for rank in BY_HAND}
    made = build_pipeline({rank: actions for rank, actions in ranks.items() if actions is not None})
    assert made is not None
    return made


def test_the_middle_step_from_the_first_action_to_the_last(tmp_path):
    step = found(tmp_path)
    assert (step.step, step.includes_waits) == (5, False)
    assert step.end_ns - step.start_ns == 9 * UNIT * 1e3
    assert [[(each.stage, each.kind, each.microbatch) for each in rank.actions] for rank in step.ranks] == [
        [(0, "F", 0), (0, "F", 1), (0, "B", 0), (0, "B", 1)],
        [(1, "F", 0), (1, "F", 1), (1, "B", 0), (1, "B", 1)],
    ]
    # (p - 1) / (m + p - 1) with two ranks and two microbatches: a third of the time.
    assert [rank.idle_share for rank in step.ranks] == pytest.approx([1 / 3, 1 / 3])


def test_our_marks_go_before_those_of_torch_which_hold_the_wait(tmp_path):
    assert not found(tmp_path, torch="PP:").includes_waits
    assert found(tmp_path, prefix="PP:").includes_waits


def test_clocks_are_set_by_what_they_are_ahead(tmp_path):
    ranks = {rank: traced(tmp_path / str(rank), rank) for rank in BY_HAND}
    moved = build_pipeline(ranks, {1: 100_000})
    assert moved is not None
    assert [rank.actions[0].start_ns - moved.start_ns for rank in moved.ranks] == [0, 0]


def test_the_clocks_of_a_trace_begin_where_its_file_says(tmp_path):
    events = [range_("perfkit::step#4", 0, STEP), event("aten::mm", 0, 1.0), range_("perfkit::0F0", 10, UNIT)]
    ops = ops_of(tmp_path, *events)
    at, shifted = (find_stage_actions(replace(ops, trace=replace(ops.trace, base_ns=base))) for base in (0, 7_000_000))
    assert shifted.actions[0].start_ns - at.actions[0].start_ns == 7_000_000


def fleet(*offsets: float | None) -> Fleet:
    figures = dict.fromkeys(("step_s", "compute_s", "communication_s", "exposed_communication_s", "idle_s"), 0.0)
    rows = [RankRow(label="", rank=n, late_s=None, clock_offset_s=each, **figures) for n, each in enumerate(offsets)]
    return Fleet(ranks=tuple(rows), skew=(), straggler="", step_spread=None, notes=())


def test_clocks_of_other_machines_must_all_be_known():
    assert _get_clock_offsets(fleet(0.0, 0.5), [0, 1]) == {0: 0, 1: 500_000_000}
    assert _get_clock_offsets(fleet(0.0, None), [0, 1]) is None
    assert _get_clock_offsets(fleet(0.0, 0.5), [0, 1, 2]) is None
    assert _get_clock_offsets(None, [0, 1]) is None


def test_one_rank_alone_is_no_pipeline(tmp_path):
    assert build_pipeline({0: traced(tmp_path / "0", 0)}) is None
    (tmp_path / "none").mkdir()
    assert find_stage_actions(ops_of(tmp_path / "none", event("aten::mm", 0, 1.0))) is None


def test_the_bubble_of_the_timed_steps_beside_theory(tmp_path):
    facts = {
        0: {"stage_busy_s": 0.8, "pipeline_s": 1.0, "expected_bubble_share": 1 / 3},
        1: {"stage_busy_s": 0.7, "pipeline_s": 1.0, "expected_bubble_share": 1 / 3},
    }
    measured = add_measured_bubbles(found(tmp_path), facts, {"expected_bubble_share": "a paper"}, "cpu")
    assert (measured.expected_bubble, measured.source) == (1 / 3, "a paper")
    shares = [rank.bubble.value for rank in measured.ranks if isinstance(rank.bubble, Measurement)]
    assert shares == pytest.approx([0.2, 0.3])
    on_a_gpu = add_measured_bubbles(found(tmp_path), facts, {}, "cuda")
    assert all(isinstance(rank.bubble, Unknown) for rank in on_a_gpu.ranks)
