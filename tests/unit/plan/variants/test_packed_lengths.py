"""Sequences packed into rows: how full these are, what attention takes, and padding for comparison."""

import pytest

from perfkit.analysis.model.plan import Interval, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.errors import UsageError
from perfkit.core.spec import RunSpec, WorkloadSpec
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.target.target import CPU, Target, parse_target
from perfkit.plan.variants.packed_lengths import check_rows, compute_fill, pack_lengths

RUN = ScheduledRun(RunSpec(workload=WorkloadSpec(name="gpt")), 0)
GPU = parse_target("l40s", None)
LENGTHS = {128: 0.5, 384: 0.5}  # 256 on average, two of which fill a row of 512


def plan(run: ScheduledRun, _target: Target) -> PlannedVariant:
    """A row of n tokens takes n ms, and (n / 64)² of attention; memory is n bytes."""
    length = int(run.spec.workload.params["seq_len"])
    others, attention = length / 1000, (length / 64) ** 2 / 1000
    seconds = others + attention
    total = Interval(value=seconds, low=seconds / 2, high=seconds * 2)
    return PlannedVariant(
        name="flash",
        world_size=1,
        peak_allocated_bytes=PlannedPeak(value=length, low=length, high=length, phase="", categories={}),
        step_s=StepTime(total=total, parts={"GEMM": others, "attention": attention}, dominant="GEMM", source=""),
        units_per_step=float(length),
    )


@pytest.mark.parametrize(
    ("lengths", "row", "fill"),
    [
        ({512: 1.0}, 512, 1.0),
        ({300: 1.0}, 512, 300 / 512),
        (LENGTHS, 512, 1.0),
        ({100: 0.6, 700: 0.4}, 1000, 340 / 400),
    ],
)
def test_rows_are_as_full_as_the_best_fit_makes_them(lengths: dict[int, float], row: int, fill: float) -> None:
    assert compute_fill(lengths, row) == pytest.approx(fill, rel=1e-3)


def test_attention_follows_the_sequences_where_the_kernel_can() -> None:
    found = pack_lengths(LENGTHS, 512, plan)(RUN, GPU)
    assert found.packing is not None
    assert found.step_s is not None
    assert (found.packing.attention, found.units_per_step) == ("documents", 512.0)
    within = (128**2 + 384**2) / 64**2 / 1000  # one of each in a row
    assert found.step_s.parts["attention"] == pytest.approx(within)
    assert found.step_s.total.value == pytest.approx(0.512 + within)
    assert found.step_s.total.high / found.step_s.total.value == pytest.approx(2)
    assert found.peak_allocated_bytes is not None
    assert found.peak_allocated_bytes.value == 512


def test_attention_covers_whole_rows_where_it_cannot() -> None:
    found = pack_lengths(LENGTHS, 512, plan)(RUN, CPU)
    assert found.packing is not None
    assert found.step_s is not None
    assert (found.packing.attention, found.step_s.parts["attention"]) == ("rows", 0.064)
    assert [note.id for note in found.assumptions] == ["plan.packed_lengths"]


def test_padding_is_to_the_longest() -> None:
    packing = pack_lengths(LENGTHS, 512, plan)(RUN, GPU).packing
    assert packing is not None
    assert (packing.padded_tokens, packing.padded_fill) == (384, pytest.approx(256 / 384))
    assert packing.padded_step_s is not None
    assert packing.padded_step_s.value == pytest.approx(0.384 + 0.036)
    assert packing.padded_units_per_step == pytest.approx(256)
    assert packing.padded_needed == Interval(value=384, low=384, high=384)


def test_as_many_tokens_are_padded_as_packed() -> None:
    batches: list[tuple[object, object]] = []

    def note(run: ScheduledRun, target: Target) -> PlannedVariant:
        params = run.spec.workload.params
        batches.append((params["seq_len"], params.get("batch_size")))
        return plan(run, target)

    nano = ScheduledRun(RunSpec(workload=WorkloadSpec(name="gpt", params={"size": "nano"})), 0)  # two samples
    pack_lengths({128: 1.0}, 512, note)(nano, CPU)
    assert batches == [(512, None), (128, 8)]


def test_rows_hold_whole_sequences() -> None:
    check_rows(LENGTHS, 384)
    with pytest.raises(UsageError, match="--packing"):
        check_rows(LENGTHS, 383)
