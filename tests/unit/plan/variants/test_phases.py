"""Phases beside training steps: what an evaluation and a checkpoint need, where, and how long they take."""

from typing import Any

import pytest

from perfkit.analysis.model.plan import Interval, PlannedPhase, PlannedVariant
from perfkit.plan.rehearsal.rehearsal import RehearsedStep
from perfkit.plan.rehearsal.saved_state import SavedState
from perfkit.plan.target.target import CPU, Target, parse_target
from perfkit.plan.variants.evaluation_phases import Evaluation
from perfkit.plan.variants.phases import find_deciding_phase, plan_phases

NOTHING: Any = None  # no account is made of it
GPU = parse_target("l40s", None)._replace(disk_bytes_per_s=1e9)
ALONE = SavedState(own=600, whole=600, largest_own=100, largest=100)
SPLIT = SavedState(own=150, whole=600, largest_own=25, largest=100)


def step(saved: SavedState) -> RehearsedStep:
    return RehearsedStep(allocations=NOTHING, untried=(), held_bytes=1000, saved=saved)


def plan(saved: SavedState, target: Target, ranks: int = 1) -> dict[str, PlannedPhase]:
    variant = PlannedVariant(name="amp", world_size=ranks)
    found = plan_phases(step(saved), variant, target, 1, None)
    return {each.phase: each for each in found}


def test_a_state_that_one_rank_has_is_copied_tensor_by_tensor() -> None:
    (full,) = plan(ALONE, GPU).values()
    assert full.needed is not None
    assert (full.phase, full.needed.value, full.host_bytes, full.fit) == ("checkpoint_full", 1000, 100, "fits")


def test_a_split_state_is_gathered_in_main_memory() -> None:
    found = plan(SPLIT, GPU, ranks=4)
    full, sharded = found["checkpoint_full"], found["checkpoint_sharded"]
    assert full.needed is not None
    assert sharded.needed is not None
    assert (full.needed.value, full.host_bytes) == (1100, 600)  # a whole tensor beside what is held
    assert (sharded.needed.value, sharded.host_bytes) == (1000, 25)
    on_cpu = plan(SPLIT, CPU, ranks=4)["checkpoint_full"]
    assert on_cpu.needed == Interval(value=1700, low=1600, high=1700)
    assert on_cpu.host_bytes == 0


def test_a_checkpoint_is_copied_and_written() -> None:
    found = plan(SPLIT, GPU, ranks=4)
    full, sharded = found["checkpoint_full"].seconds, found["checkpoint_sharded"].seconds
    assert full is not None
    assert sharded is not None
    assert full.low == 600 / 1e9
    assert full.value > full.low
    assert full.value / sharded.value == pytest.approx(4)
    unknown = plan(SPLIT, GPU._replace(disk_bytes_per_s=None), ranks=4)["checkpoint_full"]
    assert unknown.seconds is None
    assert "--disk" in unknown.time_reason


def test_a_replicated_state_is_written_in_parts() -> None:
    found = plan(ALONE, CPU._replace(disk_bytes_per_s=1.0), ranks=4)
    seconds = found["checkpoint_sharded"].seconds
    assert seconds is not None
    assert seconds.value == 150


def test_what_exceeds_the_limit_does_not_fit() -> None:
    assert plan(SPLIT, CPU._replace(limit_bytes=1500), ranks=4)["checkpoint_full"].fit == "does not fit"
    assert plan(SPLIT, CPU._replace(limit_bytes=1650), ranks=4)["checkpoint_full"].fit == "may fit"


def test_an_evaluation_that_is_not_planned_has_the_reason() -> None:
    variant = PlannedVariant(name="pp", world_size=1)
    first, _ = plan_phases(step(ALONE), variant, CPU, 1, Evaluation(8, 4))
    assert (first.phase, first.needed) == ("evaluation", None)
    assert first.reason


def test_the_phase_that_needs_most_decides() -> None:
    def need(phase: str, low: float, high: float) -> PlannedPhase:
        return PlannedPhase(phase=phase, needed=Interval(value=low, low=low, high=high))

    unknown = PlannedPhase(phase="evaluation", reason="not rehearsed")
    assert find_deciding_phase([need("first_step", 5, 5), need("step", 5, 5), unknown]) == "step"
    assert find_deciding_phase([need("step", 5, 5), need("checkpoint_full", 4, 6)]) == "checkpoint_full"
    assert find_deciding_phase([unknown]) == ""
