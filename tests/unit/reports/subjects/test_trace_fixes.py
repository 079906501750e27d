"""The fixes of the first screen, and the advice that they give."""

from typing import Any

import msgspec
import pytest

from perfkit.analysis.findings.rule import GAIN
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.replay import FindingGains, ReplaySummary, TouchedTime
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.trace.findings.tables.trace_rules import RULES
from perfkit_reports.document.blocks import Findings
from perfkit_reports.subjects.trace import fixes
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.figures import list_figures

_REPLAY = ReplaySummary(
    recorded_s=1.0, replayed_s=1.0, error=0.0, nodes=9, busy_share=0.9, reason="", critical_path={},
    step_path={"host": 0.8, "GEMM": 0.2},
)  # fmt: skip


def gain(name: str, **changes: Any) -> Finding:
    told = {"severity": "gain", "title": name, "variant": "rank 0", "evidence": "", "action": "do it", **changes}
    return Finding(id=name, **told)


def with_findings(*findings: Finding, **changes: Any) -> TraceAnalysis:
    """A trace with a step of 34.9 ms."""
    return msgspec.structs.replace(sample.alone(**changes), findings=findings)


def test_rows_have_the_gains_of_the_findings_and_lead_to_them() -> None:
    found = (
        gain("launch.cpu_bound", gain_s=9e-3, simulated_s=7e-3),
        gain("comm.waiting", gain_s=3.5e-3),
        gain("sync.item", gain_s=1e-3, simulated_s=0.0),
    )
    first, second = fixes.build_fixes(with_findings(*found)).items
    assert (first.saves.value, list_figures(first.saves.detail)) == (7e-3, ["20 %"])
    assert (first.confidence, second.confidence) == ("simulated", "upper bound")
    assert [first.anchor, second.anchor] == [anchor for anchor, _ in Findings(id="x", items=found).anchored[:2]]


@pytest.mark.parametrize(
    ("name", "kernels_s", "excess"),
    [
        ("launch.cpu_bound", 0.0, ["1.00 ms"]),  # beyond the idle time that the bar shows
        ("fusion.norm", 5.5e-3, ["1.50 ms"]),  # beyond the kernels
        ("fusion.norm", 7e-3, []),
    ],
)
def test_what_a_fix_saves_beyond_its_own_part_is_named(name: str, kernels_s: float, excess: list[str]) -> None:
    touched = TouchedTime(kernels_s=kernels_s, gaps_s=0.0, cpu_s=9e-3, waits_s=0.0)
    found = gain(name, gain_s=5e-3, simulated_s=7e-3, touched=touched)
    split = (TimeShare(category="idle waiting for the CPU", seconds=6e-3, share=0.2),)
    analysis = with_findings(found, time_split=split)
    assert list_figures(fixes.describe_excess(found, analysis.traces[0])) == excess
    (row,) = fixes.build_fixes(analysis).items
    assert list_figures(row.saves.detail)[1:] == excess


def test_at_most_three_rows_and_none_too_small_to_matter() -> None:
    found = [gain(f"memory.kind_{place}", gain_s=1e-3) for place in range(5)]
    assert len(fixes.build_fixes(with_findings(*found)).items) == 3
    assert fixes.build_fixes(with_findings(gain("sync.copy", gain_s=1e-5))).items == ()


def test_a_bound_on_the_devices_work_saves_nothing_where_the_cpu_is_the_limit() -> None:
    exposed = gain("comm.exposed", gain_s=5e-3)
    assert fixes.list_gains(with_findings(exposed, replay=_REPLAY)) == []
    on_device = msgspec.structs.replace(_REPLAY, step_path={"host": 0.2, "GEMM": 0.8})
    assert fixes.list_gains(with_findings(exposed, replay=on_device)) == [exposed]


def test_kernels_are_not_said_to_gain_little_where_few_have_a_known_roof() -> None:
    found = gain("data.starved", gain_s=9e-3, simulated_s=7e-3)
    split = tuple(
        TimeShare(category=name, seconds=share, share=share)
        for name, share in {"memory-bound": 0.01, "no FLOP or byte estimate": 0.39, "waiting for data": 0.6}.items()
    )
    analysis = with_findings(found, replay=_REPLAY, gains=FindingGains(roofs_s=2e-6), time_split=split)
    assert list_figures(fixes.describe_advice(analysis, analysis.traces[0])) == ["7.00 ms"]
    tile = fixes.build_roofs_tile(analysis.traces[0])
    assert tile is not None
    assert "2 %" in list_figures(tile.cell.detail)


def test_without_a_gain_the_rows_say_how_to_learn_more() -> None:
    (row,) = fixes.build_fixes(with_findings(gain("limit.missing_kernels", severity="warning"))).items
    assert (row.saves.known, row.confidence) == (False, "unknown")


def test_the_advice_is_the_first_fix_and_what_faster_kernels_alone_gain() -> None:
    found = gain("launch.cpu_bound", gain_s=9e-3, simulated_s=7e-3)
    gains = FindingGains(roofs_s=2e-6, together_s=8e-3)
    analysis = with_findings(found, replay=_REPLAY, gains=gains)
    (trace,) = analysis.traces
    assert list_figures(fixes.describe_advice(analysis, trace)) == ["7.00 ms", "2.00 us"]
    much = with_findings(found, replay=_REPLAY, gains=msgspec.structs.replace(gains, roofs_s=6e-3))
    assert list_figures(fixes.describe_advice(much, much.traces[0])) == ["7.00 ms"]
    assert fixes.describe_advice(with_findings(), trace) == ""


@pytest.mark.parametrize(
    ("changes", "figures"),
    [
        ({"gains": FindingGains(roofs_s=4e-3, together_s=9.9e-3)}, ["4.00 ms", "96 %"]),
        ({"gains": None}, ["10.8 ms", "96 %"]),
        ({"gains": None, "ceilings": None}, []),
    ],
)
def test_a_badge_has_what_kernels_at_their_roofs_save(changes: dict[str, Any], figures: list[str]) -> None:
    on_device = msgspec.structs.replace(_REPLAY, step_path={"GEMM": 1.0})
    tile = fixes.build_roofs_tile(sample.alone(replay=on_device, **changes).traces[0])
    assert ([] if tile is None else list_figures(f"{tile.cell.text} {tile.cell.detail}")) == figures


def test_below_the_fixes_is_what_all_of_them_save() -> None:
    found = (gain("gemm.fp32", gain_s=9e-3, simulated_s=8e-3), gain("sync.item", gain_s=3e-3, simulated_s=2e-3))
    analysis = with_findings(*found, gains=FindingGains(together_s=9.9e-3))
    assert list_figures(fixes.build_fixes(analysis).caption) == ["2", "34.9 ms", "25.0 ms"]


def test_every_gain_of_a_trace_has_an_instruction_of_its_own() -> None:
    ids = {kind.id for rule in RULES for kind in rule.kinds if kind.severity == GAIN}
    assert ids == {name for name in ids if fixes.get_instruction(gain(name)).lower() != name}


def test_the_saving_is_the_sum_of_time_above_the_roofs_and_no_more() -> None:
    trace = sample.trace("rank 0", 0)
    sure = [row for row in trace.kernels if row.attainable_s is not None and not row.above_roof]
    assert fixes.compute_saving_s(trace) == pytest.approx(sum(row.seconds - (row.attainable_s or 0.0) for row in sure))
    assert fixes.compute_saving_s(msgspec.structs.replace(trace, step_s=1e-3)) == 1e-3


def test_work_outside_of_steps_is_not_saved_from_a_step() -> None:
    trace = sample.trace("rank 0", 0)
    outside = tuple(msgspec.structs.replace(row, phase="outside steps") for row in trace.kernels)
    assert fixes.compute_saving_s(msgspec.structs.replace(trace, kernels=outside)) is None
