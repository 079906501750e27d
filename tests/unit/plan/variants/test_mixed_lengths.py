"""Steps of several sequence lengths: means of time and tokens, memory of the longest."""

import pytest

from perfkit.analysis.model.plan import Interval, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.errors import UsageError
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.target.target import CPU, Target
from perfkit.plan.variants.mixed_lengths import mix_lengths, parse_lengths, require_lengths

RUN = ScheduledRun(RunSpec(workload=WorkloadSpec(name="gpt")), 0)


def plan(run: ScheduledRun, _target: Target) -> PlannedVariant:
    length = int(run.spec.workload.params["seq_len"])
    total = Interval(value=length / 100, low=length / 200, high=length / 50)
    return PlannedVariant(
        name="baseline",
        world_size=1,
        peak_allocated_bytes=PlannedPeak(value=length, low=length, high=length, phase="", categories={}),
        step_s=StepTime(total=total, parts={"GEMM": length / 100}, dominant="GEMM", source=""),
        units_per_step=float(length),
        flops=10.0 * length,
    )


def test_lengths() -> None:
    assert parse_lengths("100:0.75, 900:.25") == {100: 0.75, 900: 0.25}


@pytest.mark.parametrize("text", ["100", "100:0.5,200:0.6", "100:0.5,100:0.5", "0:1", "100:1,200:0", "a:1"])
def test_lengths_that_are_wrong(text: str) -> None:
    with pytest.raises(UsageError, match="--seq-lengths"):
        parse_lengths(text)


def test_a_step_is_the_mean_and_memory_that_of_the_longest() -> None:
    mixed = mix_lengths({100: 0.75, 900: 0.25}, plan)(RUN, CPU)
    assert (mixed.units_per_step, mixed.flops) == (300.0, 3000.0)
    assert mixed.step_s is not None
    assert mixed.step_s.total == Interval(value=3.0, low=1.5, high=6.0)
    assert sum(mixed.step_s.parts.values()) == 3.0
    assert mixed.peak_allocated_bytes is not None
    assert mixed.peak_allocated_bytes.value == 900
    (note,) = mixed.assumptions
    assert (note.id, note.figures) == ("plan.mixed_lengths", {"longest": 900})
    assert [(each.tokens, each.step_share) for each in mixed.lengths] == [(100, 0.75), (900, 0.25)]
    assert mixed.exceeding_share is None  # without a limit


def test_sequences_are_drawn_alone_and_padded_to_the_longest() -> None:
    run = ScheduledRun(
        RunSpec(
            workload=WorkloadSpec(name="gpt", params={"size": "nano", "batch_size": 2}),
            accumulation=3,
            launch=LaunchSpec(world_size=2),
        ),
        0,
    )
    mixed = mix_lengths({100: 0.75, 200: 0.25}, plan, "sequences")(run, CPU._replace(limit_bytes=150))
    short, long = mixed.lengths
    assert (short.batch_share, long.batch_share) == pytest.approx((0.75**2, 1 - 0.75**2))
    assert long.step_share == pytest.approx(1 - 0.75**12)  # 2 samples of 2 ranks in 3 microbatches
    assert (short.fit, long.fit) == ("fits", "does not fit")
    assert mixed.exceeding_share is not None
    assert mixed.exceeding_share.value == long.step_share
    assert mixed.units_per_step == pytest.approx(125)  # tokens of sequences
    assert mixed.flops == pytest.approx(1000 * 0.75**2 + 2000 * (1 - 0.75**2))
    assert mixed.step_s is not None
    assert mixed.step_s.total.value == pytest.approx(1 * 0.75**4 + 2 * (1 - 0.75**4))  # the slower of both ranks


def test_what_cannot_be_planned_at_one_length_cannot_at_all() -> None:
    def refuse_long(run: ScheduledRun, target: Target) -> PlannedVariant:
        long = run.spec.workload.params["seq_len"] == 900
        return PlannedVariant(name="baseline", world_size=1, reason="too long") if long else plan(run, target)

    assert mix_lengths({100: 0.5, 900: 0.5}, refuse_long)(RUN, CPU).reason == "too long"


def test_only_workloads_with_a_length_have_several() -> None:
    require_lengths(WorkloadSpec(name="gpt", params={"size": "nano"}), "cpu", {16: 1.0})
    with pytest.raises(UsageError, match="seq_len"):
        require_lengths(WorkloadSpec(name="resnet"), "cpu", {16: 1.0})
    with pytest.raises(UsageError, match="seq_len"):
        require_lengths(WorkloadSpec(name="gpt", params={"seq_len": 8}), "cpu", {16: 1.0})
