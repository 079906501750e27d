"""Overlaps between findings, findings of many ranks, stragglers, and two traces compared."""

import msgspec
import pytest

from perfkit.analysis.model.difference import ChangeRow, TraceDifference
from perfkit.analysis.model.fleet import Fleet, RankRow, SkewRow
from perfkit.analysis.model.launches import Overlap
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.analysis.trace.idle.host_calls import ALLOCATION, FETCH, WAIT
from tests.fixtures.rank_traces import call, coverage, gap, launches, queued, rank_trace, row


def test_findings_about_the_same_time_say_so() -> None:
    trace = rank_trace(launches=launches(starved_s=0.3, short_kernels=50_000, short_s=0.2, short_gap_s=0.2))
    host, short = collect_trace_findings((trace,), None, None)
    assert (host.id, short.id) == ("launch.cpu_bound", "launch.short_kernels")
    assert any(short.title in detail for detail in host.details)
    assert any(host.title in detail for detail in short.details)


def test_each_moment_of_idle_time_has_one_cause_so_that_gains_of_several_add_up() -> None:
    fed = launches(starved_s=0.5, late_s=0.1, queued_idle=queued(launching_s=0.1, launching_gaps=9.0))
    calls = tuple(call(kind, kind, 3, 0.1) for kind in (WAIT, ALLOCATION, FETCH))
    trace = rank_trace(launches=fed, host_calls=calls, gaps=(gap(0.1),))
    found = collect_trace_findings((trace,), None, None)
    assert [finding.gain_s for finding in found] == [0.1] * 6
    titles = [finding.title for finding in found]
    assert not any(title in detail for finding in found for detail in finding.details for title in titles)


def test_findings_about_other_time_do_not() -> None:
    trace = rank_trace(launches=launches(starved_s=0.3), ops=(row("aten::zero_", 0.1),))
    one, other = collect_trace_findings((trace,), None, None)
    assert {one.id, other.id} == {"launch.cpu_bound", "fill.zeros"}
    assert not any(other.title in detail for detail in one.details)
    assert not any(one.title in detail for detail in other.details)


def test_gains_are_ordered_and_small_ones_left_out() -> None:
    trace = rank_trace(launches=launches(starved_s=0.1), ops=(row("aten::zero_", 0.3), row("aten::other", 0.1)))
    assert [each.gain_s for each in collect_trace_findings((trace,), None, None)] == [0.3, 0.1]


def test_a_limit_of_several_ranks_is_shown_where_it_is_largest() -> None:
    ranks = [
        rank_trace(label=f"rank {number}", rank=number, coverage=coverage(linked_s=linked_s))
        for number, linked_s in enumerate((0.95, 0.7, 0.9))
    ]
    (found,) = [each for each in collect_trace_findings(ranks, None, None) if each.id == "limit.unlinked_kernels"]
    assert (found.variant, found.figures["share"]) == ("rank 1", pytest.approx(0.3))
    assert any("rank 0" in detail and "rank 2" in detail for detail in found.details)


def rank(number: int, late_s: float | None, compute_s: float = 0.5) -> RankRow:
    return RankRow(
        label=f"rank {number}", rank=number, step_s=1.0, compute_s=compute_s, communication_s=0.1,
        exposed_communication_s=0.1, idle_s=0.0, late_s=late_s, clock_offset_s=0.0,
    )  # fmt: skip


def skew(wait_s: float, latest: str) -> SkewRow:
    return SkewRow(
        name="allreduce", group="world", calls=1, wait_s=wait_s, worst_wait_s=2 * wait_s, latest_rank=latest,
        latest_share=0.9,
    )  # fmt: skip


def fleet(straggler: str, *ranks: RankRow, waits: SkewRow | None = None) -> Fleet:
    return Fleet(ranks=ranks, skew=(waits,) if waits else (), straggler=straggler, step_spread=0.1)


def test_a_straggler_is_named_with_what_it_costs() -> None:
    job = fleet("rank 1", rank(0, 0.0), rank(1, 0.2, 0.7), waits=skew(0.15, "rank 1"))
    (finding,) = collect_trace_findings((rank_trace(),), job, None)
    assert (finding.id, finding.variant) == ("ranks.straggler", "rank 1")
    assert (finding.gain_s, finding.figures) == (0.2, {"late_s": 0.2, "compute_s": 0.7})
    assert "90 % of allreduce" in finding.evidence
    assert "500 ms" in finding.evidence


def test_ranks_that_are_late_together_are_named_together_with_what_each_mending_saves() -> None:
    ranks = [rank(0, 0.0), rank(1, 0.21, 0.7), rank(2, 0.2, 0.7), rank(3, 0.01)]
    ranks[1] = msgspec.structs.replace(ranks[1], caused_s=0.012)
    job = msgspec.structs.replace(
        fleet("rank 1", *ranks, waits=skew(0.1, "rank 2")), stragglers=("rank 1", "rank 2"), stragglers_saved_s=0.195
    )
    (finding,) = collect_trace_findings((rank_trace(),), job, None)
    assert (finding.id, finding.variant, finding.gain_s) == ("ranks.straggler", "rank 1", 0.195)
    expected = {"late_s": 0.21, "compute_s": 0.7, "alone_s": 0.012, "together_s": 0.195, "stragglers": 2}
    assert finding.figures == expected
    assert "rank 2" in finding.title
    assert "12.0 ms" in finding.evidence


def test_a_straggler_whose_device_idles_waits_for_its_cpu() -> None:
    ranks = [msgspec.structs.replace(rank(number, 0.01), idle_s=0.05) for number in range(3)]
    busy = fleet("rank 3", *ranks, msgspec.structs.replace(rank(3, 0.2), idle_s=0.1))
    idle = fleet("rank 3", *ranks, msgspec.structs.replace(rank(3, 0.2), idle_s=0.2, caused_s=0.12))
    (working,), (waiting,) = (collect_trace_findings((rank_trace(),), job, None) for job in (busy, idle))
    assert "idle_s" not in working.figures
    assert "nvidia-smi" in working.action
    assert (waiting.gain_s, waiting.figures["late_s"], waiting.figures["idle_s"]) == (0.12, 0.2, 0.2)
    assert "nvidia-smi" not in waiting.action


@pytest.mark.parametrize("late", [0.001, None])
def test_a_rank_that_is_hardly_late_or_of_unknown_lateness_is_no_straggler(late: float | None) -> None:
    assert collect_trace_findings((rank_trace(),), fleet("rank 1", rank(0, 0.0), rank(1, late)), None) == ()


def test_changing_ranks_that_come_last_are_told_as_imbalance() -> None:
    job = fleet("", rank(0, 0.0), rank(1, 0.0), waits=skew(0.1, "rank 1"))
    (finding,) = collect_trace_findings((rank_trace(),), job, None)
    assert finding.id == "ranks.waiting"
    assert (finding.gain_s, finding.figures) == (0.1, {"wait_s": 0.1, "most_s": 0.1, "worst_s": 0.2})
    assert "allreduce" in finding.evidence


def test_what_ranks_have_in_common_is_told_once_for_the_worst() -> None:
    ranks = [
        msgspec.structs.replace(rank_trace(launches=launches(starved_s=idle)), label=f"rank {number}")
        for number, idle in enumerate((0.1, 0.3, 0.2))
    ]
    job = fleet("", *(rank(number, 0.0) for number in range(3)))
    (finding,) = collect_trace_findings(ranks, job, None)
    assert (finding.variant, finding.gain_s) == ("rank 1", 0.3)
    assert finding.id == "launch.cpu_bound"
    assert "rank 0, rank 2" in finding.details[-1]


def test_traces_of_different_devices_are_told_apart() -> None:
    traces = [
        msgspec.structs.replace(rank_trace(launches=launches(starved_s=0.3)), label=name, device_name=name)
        for name in ("one GPU", "another GPU")
    ]
    assert {finding.variant for finding in collect_trace_findings(traces, None, None)} == {"one GPU", "another GPU"}


def change(name: str, before: float | None, after: float | None) -> ChangeRow:
    return ChangeRow(
        name=name, module="", phase="forward", shapes="", before_calls=1, after_calls=1, before_s=before, after_s=after,
        before_flops=None, after_flops=None, before_bytes=None, after_bytes=None,
    )  # fmt: skip


def compared(before_s: float, after_s: float) -> TraceDifference:
    return TraceDifference(
        before="old", after="new", before_step_s=before_s, after_step_s=after_s,
        changes=(change("aten::mm", 0.2, 0.4), change("aten::gelu", 0.1, None), change("aten::add", 0.1, 0.1)),
        rest_before_s=0.0, rest_after_s=0.0, before_trace=rank_trace(),
    )  # fmt: skip


def test_a_regression_is_a_warning_that_names_what_became_slower() -> None:
    (finding,) = collect_trace_findings((rank_trace(),), None, compared(1.0, 1.1))
    assert (finding.severity, finding.id) == ("warning", "step.slower")
    assert finding.figures == {"before_s": 1.0, "after_s": 1.1}
    assert "aten::mm forward +200 ms" in finding.evidence
    assert "gelu" not in finding.evidence


def test_an_improvement_is_a_note_that_names_what_became_faster() -> None:
    (finding,) = collect_trace_findings((rank_trace(),), None, compared(1.0, 0.9))
    assert (finding.severity, finding.id) == ("note", "step.faster")
    assert finding.figures == {"before_s": 1.0, "after_s": 0.9}
    assert "aten::gelu forward -100 ms" in finding.evidence
    assert "aten::mm" not in finding.evidence


def test_a_difference_within_the_machines_own_is_no_finding() -> None:
    assert collect_trace_findings((rank_trace(),), None, compared(1.0, 1.01)) == ()


def test_communication_and_a_straggler_are_both_told_and_marked() -> None:
    waiting = Overlap(communication_s=0.3, exposed_communication_s=0.3, copies_s=0.0, exposed_copies_s=0.0)
    job = fleet("rank 1", rank(0, 0.0), rank(1, 0.2))
    found = collect_trace_findings((rank_trace(overlap=waiting),), job, None)
    assert [each.gain_s for each in found] == [0.3, 0.2]
    assert [each.id for each in found] == ["comm.exposed", "ranks.straggler"]
    assert "communication" in found[1].details[0]
    assert found[1].not_simulated_reason
