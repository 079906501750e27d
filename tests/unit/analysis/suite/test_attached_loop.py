"""What the records of a loop tell of it, in numbers that can be added up by hand."""

from typing import Any

import pytest

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.loop import CountPerStep, LoopAnalysis, LoopRank, Slowdown, StepOutliers
from perfkit.analysis.suite.attached_loop import build_loop, summarize_tokens
from perfkit.analysis.suite.cost import add_token_cost, compute_useful_tokens
from perfkit.core.record.attached_loop import AttachedLoop, TokenCounts, WallTimeParts
from perfkit.core.record.quantity import Measurement, Unknown, make_measurement
from perfkit.core.record.rank_record import RankRecord
from perfkit.store.price import Price
from tests.fixtures.suites import record


def watched(steps: tuple[float, ...] = (0.1,) * 4, rank: int = 0, **attached: Any) -> RankRecord:
    told = AttachedLoop(step_marker="the steps of AdamW", **{"optimizers": ("AdamW, 6 parameters",), **attached})
    return record(steps, rank=rank, attached_loop=told, flops=None)


def attached(**fields: Any) -> AttachedLoop:
    return AttachedLoop(step_marker="", **fields)


def loop(*records: RankRecord) -> LoopAnalysis:
    found = build_loop(records)
    assert found is not None
    return found


def test_a_run_of_perfkits_own_loop_is_none() -> None:
    assert build_loop([record()]) is None
    assert build_loop([]) is None


def test_accumulation_is_backward_passes_of_an_optimizer_step() -> None:
    found = loop(watched(optimizer_steps=(1, 1), backwards=(4, 4), forwards=(4, 5)))
    assert found.microbatches == 4
    assert found.forwards == CountPerStep(median=4.5, min=4, max=5)
    # Two updates of one optimizer in a step, of one pass each, accumulate nothing.
    assert loop(watched(optimizer_steps=(2,), backwards=(2,))).microbatches == 1


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ({"forwards": (5,), "repeated_forwards": (4,), "fetches": (1,)}, None),  # evaluations of one batch
        ({"forwards": (1,), "fetches": (1,)}, None),  # a penalty's backward passes
        ({"fetches": (1,)}, None),  # a compiled model, whose forward passes are not seen
        ({"fetches": (5,)}, 5.0),
        ({"forwards": (5,), "repeated_forwards": (4,), "fetches": (5,)}, 5.0),
        ({"forwards": (5,), "fetches": (1,)}, 5.0),  # a batch in pieces
    ],
)
def test_backward_passes_without_a_batch_each_are_no_accumulation(
    counted: dict[str, tuple[int, ...]], expected: float | None
) -> None:
    assert loop(watched(optimizer_steps=(1,), backwards=(5,), **counted)).microbatches == expected


@pytest.mark.parametrize(("backwards", "expected"), [((3, 3), None), ((2, 2), None), ((1, 1), 1.0), ((), None)])
def test_several_optimizers_are_not_called_accumulation(backwards: tuple[int, ...], expected: float | None) -> None:
    gan = ("Adam, 8 parameters", "Adam, 6 parameters")
    found = loop(watched(optimizers=gan, optimizer_steps=(2, 2), backwards=backwards))
    assert found.microbatches == expected


def test_waiting_is_that_of_the_rank_that_waits_most() -> None:
    # Every fourth step waits: nothing in the median, a quarter of the longest wait in the mean.
    first = watched((0.1, 0.1, 0.1, 0.1), data_wait_s=(0.01, 0.01, 0.01, 0.01))
    second = watched((0.1, 0.1, 0.1, 0.3), rank=1, data_wait_s=(0.0, 0.0, 0.0, 0.2))
    found = loop(first, second)
    assert (found.data_wait_s, found.data_wait_mean_s) == (0.0, pytest.approx(0.05))
    assert found.data_wait_share == pytest.approx(0.2 / 0.6)
    assert found.ranks[0] == LoopRank(
        rank=0, step_s=0.1, data_wait_s=0.01, data_wait_mean_s=pytest.approx(0.01), data_wait_share=pytest.approx(0.1)
    )


def test_without_a_data_loader_waiting_is_not_known_and_never_zero() -> None:
    found = loop(watched())
    assert (found.data_wait_s, found.data_wait_mean_s, found.data_wait_share) == (None, None, None)


def test_slowdowns_hold_medians_of_the_slowest_ranks_against_each_other() -> None:
    first = watched((0.1, 0.1, 0.2), instrumented_s={"trace": (0.12, 0.13, 0.9), "memory": ()})
    second = watched((0.2,) * 3, rank=1, instrumented_s={"trace": (0.3, 0.3)})
    assert loop(first).slowdowns == (Slowdown(instrument="trace", seconds=0.13, ratio=pytest.approx(1.3), steps=3),)
    (worst,) = loop(first, second).slowdowns
    assert (worst.ratio, worst.steps) == (pytest.approx(1.5), 2)


def test_without_timed_steps_nothing_is_slower() -> None:
    found = loop(watched((), instrumented_s={"trace": (0.2,)}))
    assert (found.slowdowns, found.steps_timed, found.ranks[0].step_s) == ((), 0, None)


def test_outliers_that_come_regularly_and_wait_for_data() -> None:
    steps = [0.1] * 12
    for place in (2, 6, 10):
        steps[place] = 0.5
    waits = tuple(0.3 if step > 0.2 else 0.0 for step in steps)
    found = loop(watched(tuple(steps), data_wait_s=waits)).outliers
    assert found == StepOutliers(
        count=3,
        steps=12,
        shortest_ratio=pytest.approx(5),
        longest_ratio=pytest.approx(5),
        excess_s=pytest.approx(3 * 0.4 / 12),
        period=4,
        data_share=pytest.approx(0.75),
    )


def test_two_outliers_make_no_rhythm_and_twice_the_median_is_none() -> None:
    found = loop(watched((0.1, 0.1, 0.3, 0.1, 0.1, 0.3, 0.1))).outliers
    assert (found.count, found.period, found.data_share) == (2, None, None)
    assert loop(watched((0.1, 0.1, 0.2))).outliers is None


def test_outliers_close_together_make_no_rhythm_of_all_steps() -> None:
    steps = [0.1] * 20
    for place in (8, 10, 12):
        steps[place] = 0.5
    found = loop(watched(tuple(steps))).outliers
    assert (found.count, found.period) == (3, None)


def test_tokens_of_ranks_are_summed_per_step() -> None:
    first = TokenCounts(batches=2, computed=200, padding=50, labeled=20)
    second = TokenCounts(batches=4, computed=400, padding=0, labeled=None)
    use = summarize_tokens([attached(tokens=first, fetches=(1, 1)), attached(tokens=second, fetches=(1,) * 4)])
    assert use is not None
    assert (use.computed, use.padding, use.labeled) == (200, 25, None)
    assert use.padding_share == 0.125
    assert use.most_speedup == pytest.approx(1 / 0.875)
    assert summarize_tokens([attached(tokens=first, fetches=(1, 1)), attached()]) is None


def test_a_batch_that_an_excluded_step_fetched_is_not_missing() -> None:
    use = summarize_tokens([attached(tokens=TokenCounts(batches=5, computed=500), fetches=(2, 1, 2))])
    assert use is not None
    assert use.computed == 200


WALL = WallTimeParts(
    wall_s=30.0,
    startup_s=4.0,
    training_s=10.0,
    data_s=1.0,
    evaluation_s=2.0,
    checkpoint_s=1.0,
    compilation_s=1.0,
    recording_s=10.0,
    other_s=1.0,
    updates=100,
    evaluations=1,
    checkpoints=1,
    compilations=3,
)


def test_useful_tokens_have_a_rate_in_steps_and_in_the_whole_run_a_cost_and_an_energy() -> None:
    # Two updates a step of 0.2 s with 500 useful tokens and 40 J: 50 steps in the 20 s that are the program's own.
    tokens = TokenCounts(batches=4, computed=4000, padding=1000, labeled=2500, useful=2000)
    first = watched(tokens=tokens, fetches=(1,) * 4, optimizer_steps=(2,) * 4, wall_time=WALL)
    found = loop(first)
    assert found.goodput == 0.5
    step = MedianEstimate(value=0.2, unit="s", per_process=(0.2,))
    useful = compute_useful_tokens(found, step, make_measurement(40.0, "J", "NVML"))
    assert useful is not None
    assert (useful.per_step, useful.per_second, useful.run_per_second) == (500, 2500, 500 * 50 / 20)
    assert isinstance(useful.energy_per_million, Measurement)
    assert useful.energy_per_million.value == pytest.approx(40 / 500 * 1e6)
    assert useful.cost_per_million is None
    priced = add_token_cost(useful, Price(per_hour=3.6, currency="EUR"))
    assert priced.cost_per_million == pytest.approx(3.6 / 3600 / 2500 * 1e6)
    assert priced.run_cost_per_million == pytest.approx(3.6 / 3600 / 1250 * 1e6)


def test_what_is_not_known_of_useful_tokens_is_not_computed() -> None:
    missing, nothing = MissingEstimate(reason="no timed steps"), Unknown(reason="none")
    found = loop(watched(tokens=TokenCounts(batches=1, computed=9), fetches=(1,)))
    assert compute_useful_tokens(found, missing, nothing) is None
    found = loop(watched(tokens=TokenCounts(batches=1, computed=9, useful=9), fetches=(1,)))
    useful = compute_useful_tokens(found, missing, nothing)
    assert useful is not None
    assert (useful.per_second, useful.run_per_second, useful.energy_per_million) == (None, None, nothing)
    assert add_token_cost(useful, Price(per_hour=1.0)).cost_per_million is None
