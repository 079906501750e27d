"""Traces on the clock of timed steps."""

from math import isclose

import msgspec
import pytest

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.replay import FindingGains, TouchedTime
from perfkit.analysis.model.step import FLOPS, TIME
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.suite.timed_traces import apply_timed_clock
from perfkit.core.note import make_note
from tests.fixtures import sample_trace_analysis as sample


def timed(step_s: float) -> MedianEstimate:
    return MedianEstimate(value=step_s, unit="s", per_process=(step_s,))


@pytest.fixture(scope="module")
def traced() -> PassResults:
    gains = FindingGains(
        by_finding={"gemm.fp32": 0.3},
        touched={"gemm.fp32": TouchedTime(kernels_s=0.2, gaps_s=0.1, cpu_s=0.1, waits_s=0.0)},
        together_s=0.25,
        step_s=1.0,
    )
    return PassResults(traces=tuple(msgspec.structs.replace(each, gains=gains) for each in sample.realistic().traces))


def test_every_time_is_the_same_part_of_a_timed_step(traced: PassResults) -> None:
    longest_s = max(trace.step_s for trace in traced.traces)
    changed = apply_timed_clock(traced, timed(longest_s / 4))
    for before, after in zip(traced.traces, changed.traces, strict=True):
        assert after.timed_ratio == pytest.approx(0.25)
        assert after.step_s == pytest.approx(before.step_s / 4)
        assert [part.share for part in after.time_split] == [part.share for part in before.time_split]
        assert sum(part.seconds for part in after.time_split) == pytest.approx(
            sum(part.seconds for part in before.time_split) / 4
        )
        for table in ("kernels", "ops", "modules", "gemms", "gaps", "collectives"):
            for row, scaled in zip(getattr(before, table), getattr(after, table), strict=True):
                assert scaled.seconds == pytest.approx(row.seconds / 4)
                assert getattr(scaled, "flops_per_s", None) == getattr(row, "flops_per_s", None)
                assert getattr(scaled, "efficiency", None) == getattr(row, "efficiency", None)
        assert after.gains is not None
        assert (after.gains.by_finding["gemm.fp32"], after.gains.together_s) == pytest.approx((0.075, 0.0625))
        assert after.gains.touched["gemm.fp32"].total_s == pytest.approx(0.1)
        for tree, smaller in zip(before.flames, after.flames, strict=True):
            assert sum(smaller.values[TIME]) == pytest.approx(sum(tree.values[TIME]) / 4)
            assert smaller.values.get(FLOPS) == tree.values.get(FLOPS)


def test_timelines_and_ceilings_stay(traced: PassResults) -> None:
    changed = apply_timed_clock(traced, timed(1e-3))
    assert [trace.timelines for trace in changed.traces] == [trace.timelines for trace in traced.traces]
    assert [trace.ceilings for trace in changed.traces] == [trace.ceilings for trace in traced.traces]


def test_figures_of_notes_are_those_of_their_sentences(traced: PassResults) -> None:
    note = make_note("reading.damaged", "of 3.5 ms 12.5 % are not explained", total_s=0.0035, share=0.125)
    noted = PassResults(traces=tuple(msgspec.structs.replace(each, notes=(note,)) for each in traced.traces))
    assert [trace.notes for trace in apply_timed_clock(noted, timed(1e-3)).traces] == [(note,)] * len(noted.traces)


def test_the_longest_rank_takes_a_timed_step_and_the_others_keep_their_distance(traced: PassResults) -> None:
    first, *_ = traced.traces
    step = msgspec.structs.replace(first.steps[0], seconds=first.steps[0].seconds)
    shorter = msgspec.structs.replace(
        first,
        step_s=first.step_s / 2,
        steps=tuple(msgspec.structs.replace(row, seconds=row.seconds / 2) for row in (step, *first.steps[1:])),
    )
    changed = apply_timed_clock(PassResults(traces=(shorter, first)), timed(7.5))
    assert isclose(changed.traces[1].step_s, 7.5)
    assert isclose(changed.traces[0].step_s, 3.75)


def test_the_mean_traced_step_of_which_rows_are_takes_a_timed_step(traced: PassResults) -> None:
    uneven = msgspec.structs.replace(traced.traces[0], step_s=3 * traced.traces[0].step_s)  # its median stays
    assert uneven.typical_step_s != uneven.step_s
    (changed,) = apply_timed_clock(PassResults(traces=(uneven,)), timed(7.5)).traces
    assert isclose(changed.step_s, 7.5)


def test_without_timed_steps_nothing_changes(traced: PassResults) -> None:
    assert apply_timed_clock(traced, MissingEstimate(reason="interrupted")) is traced
