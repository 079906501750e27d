"""What findings gain as the replay has it: where the host is the limit, where the device is, where it is not known."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.model import time_split
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core import units
from perfkit_reports import findings
from perfkit_reports.subjects.findings import build_section
from perfkit_reports.subjects.trace.fixes import describe_advice, list_gains
from perfkit_reports.subjects.trace.limit import find_limit
from perfkit_reports.subjects.trace.trace_headline import build_headline
from tests.fixtures.figures import list_figures
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

SIZE = 4096
ADD_US, LAYOUT_US = 10.0, 6.0


def _steps(
    every_us: float, *, count: int = 30, steps: int = 3, late_us: float = 0.0, stretch: float = 1.0
) -> list[Event]:
    """Steps of sums and of transpositions for convolutions, launched `every_us`; the last kernel is `late_us` late."""
    events: list[Event] = []
    at, free, id = 0.0, 0.0, 0
    for step in range(steps):
        begin = at
        for number in range(count):
            id += 1
            layout = number % 3 == 0
            name, took = ("cudnn::ops::nchwToNhwcKernel", LAYOUT_US) if layout else ("void add_kernel", ADD_US)
            events += [
                op("aten::cudnn_convolution" if layout else "aten::add", at, every_us * 0.8, [(SIZE,), (SIZE,)]),
                launch(id, at + every_us * 0.5),
            ]
            last = step == steps - 1 and number == count - 1
            start = max(at + every_us * 0.5 + 3.0, free + 1.0) + (late_us if last else 0.0)
            events.append(kernel(name, id, start, took * stretch))
            free = start + took * stretch
            at += every_us
        events.append(mark(f"ProfilerStep#{step}", begin, at - begin))
    return events


def _analysed(path: Path, events: list[Event]) -> TraceAnalysis:
    return analyze_traces(write_trace(path / "trace.json.gz", events))


def _of(analysis: TraceAnalysis, finding_id: str) -> Finding:
    return next(finding for finding in analysis.findings if finding.id == finding_id)


def test_where_the_host_is_the_limit_faster_kernels_gain_nothing(tmp_path: Path) -> None:
    analysis = _analysed(tmp_path, _steps(every_us=40))
    layout, host = _of(analysis, "convolution.transposes"), _of(analysis, "launch.cpu_bound")
    assert layout.gain_s == pytest.approx(10 * LAYOUT_US * 1e-6)
    assert layout.simulated_s == pytest.approx(0.0, abs=1e-6)
    assert any("100 % host" in detail for detail in layout.details)
    assert not findings.has_own_gain(layout)
    assert any("60.0 us" in line for line in findings.list_details(layout))
    assert host.simulated_s == pytest.approx(30 * 40e-6 - 30e-6 * (ADD_US * 2 / 3 + LAYOUT_US / 3), rel=0.1)
    order = [finding for finding in analysis.findings if finding.severity == "gain"]
    assert order.index(host) < order.index(layout)


def test_a_fix_that_is_not_reported_is_none_of_all_fixes(tmp_path: Path) -> None:
    unseen_us = 900.0
    events = [{**event, "ts": float(event["ts"]) + unseen_us} for event in _steps(every_us=40, steps=1)]
    (step,) = (event for event in events if event["name"] == "ProfilerStep#0")
    step |= {"ts": 0.0, "dur": float(step["dur"]) + unseen_us}
    analysis = _analysed(tmp_path, events)
    gains = analysis.traces[0].gains
    assert gains is not None
    assert gains.by_finding.keys() == {"launch.cpu_bound", "convolution.transposes"}
    assert [finding.id for finding in analysis.findings if finding.severity == "gain"] == ["launch.cpu_bound"]
    assert gains.together_s == gains.by_finding["launch.cpu_bound"] > 0
    assert "together" not in {block.id for block in build_section(analysis.findings, "", traces=analysis.traces).blocks}


def test_the_headline_names_what_a_replay_says_saves_most(tmp_path: Path) -> None:
    by_host = _analysed(tmp_path / "host", _steps(every_us=40))
    (trace,) = by_host.traces
    best = list_gains(by_host)[0]
    assert (best.id, round((best.simulated_s or 0.0) * 1e6)) == ("launch.cpu_bound", 910)
    assert "910 us" in describe_advice(by_host, trace)
    unexplained = _analysed(tmp_path / "late", _steps(every_us=40, late_us=900))
    assert all(finding.simulated_s is None for finding in list_gains(unexplained))
    assert "up to" in describe_advice(unexplained, unexplained.traces[0])


def test_where_the_device_is_the_limit_they_gain_their_sum_and_all_gains_do_not_add_up(tmp_path: Path) -> None:
    analysis = _analysed(tmp_path, _steps(every_us=8, stretch=2.0))
    layout = _of(analysis, "convolution.transposes")
    assert layout.simulated_s == pytest.approx(layout.gain_s, rel=0.1)
    (trace,) = analysis.traces
    assert trace.gains is not None
    assert trace.gains.together_s is not None
    assert trace.gains.by_finding[layout.id] == pytest.approx(layout.simulated_s)
    assert max(trace.gains.by_finding.values()) <= trace.gains.together_s <= sum(trace.gains.by_finding.values()) + 1e-9
    assert trace.gains.step_s == trace.step_s


def test_kernels_on_the_critical_path_are_told_in_the_tables(tmp_path: Path) -> None:
    by_host = _analysed(tmp_path / "host", _steps(every_us=40)).traces[0]
    by_device = _analysed(tmp_path / "device", _steps(every_us=8, stretch=2.0)).traces[0]
    for trace, on_path in ((by_host, 0.0), (by_device, 1.0)):
        for rows in (trace.kernels, trace.ops, trace.phases):
            within = [row for row in rows if row.phase != "outside steps"]
            critical = sum(row.critical_s or 0.0 for row in within)
            assert critical == pytest.approx(on_path * sum(row.seconds for row in within), rel=0.05, abs=12e-6)


def test_what_the_replay_does_not_explain_gets_the_sum_with_the_reason(tmp_path: Path) -> None:
    analysis = _analysed(tmp_path, _steps(every_us=40, late_us=900))
    layout = _of(analysis, "convolution.transposes")
    assert layout.simulated_s is None
    assert layout.not_simulated_reason
    assert layout.expected_s == layout.gain_s
    assert list_figures(findings.format_expected_gain(layout)) == ["60.0 us"]
    assert any(layout.not_simulated_reason in line for line in findings.list_details(layout))
    (trace,) = analysis.traces
    assert trace.gains is not None
    assert (trace.gains.by_finding, trace.gains.together_s) == ({}, None)


def _full_steps(every_us: float, busy: float, *, count: int = 25, steps: int = 2) -> list[Event]:
    """Steps of equal products: each begins with its launch and ends before the next launch."""
    events: list[Event] = []
    for number in range(count * steps):
        at = number * every_us
        events += [
            op("aten::mm", at, every_us * 0.9, [(64, 64), (64, 64)]),
            launch(number + 1, at + every_us * 0.5),
            kernel("ampere_sgemm_64x64_nn", number + 1, at + every_us * 0.5 + 3.0, every_us * busy),
        ]
    events += [mark(f"ProfilerStep#{step}", step * count * every_us, count * every_us) for step in range(steps)]
    return events


@pytest.mark.parametrize("busy", [0.85, 0.95])
def test_the_headline_follows_a_critical_path_on_the_cpu_though_kernels_fill_the_device(
    tmp_path: Path, busy: float
) -> None:
    analysis = _analysed(tmp_path, _full_steps(50.0, busy))
    (trace,) = analysis.traces
    assert trace.replay is not None
    assert bool(trace.replay.reason) == (busy > 0.9)  # so full a device may hide that the recording slowed the CPU
    limit = find_limit(trace)
    assert limit.path_share is not None
    assert limit.path_share > 0.97
    parts = {part.category: part.share for part in trace.time_split}
    waiting = parts[time_split.WAITING_FOR_CPU]
    shown = waiting if waiting >= 0.1 else limit.path_share  # idle time where there is much of it
    assert units.format_percent(shown, 0) in list_figures(build_headline(analysis))


def test_no_gain_is_larger_than_the_time_that_its_change_removes(tmp_path: Path) -> None:
    for name, events in (("host", _steps(every_us=40)), ("device", _steps(every_us=8, stretch=2.0))):
        (trace,) = _analysed(tmp_path / name, events).traces
        assert trace.gains is not None
        assert trace.gains.by_finding.keys() == trace.gains.touched.keys()
        for finding_id, gain_s in trace.gains.by_finding.items():
            touched = trace.gains.touched[finding_id]
            removed_s = touched.kernels_s + touched.gaps_s + touched.cpu_s + touched.waits_s
            assert 0 <= gain_s <= removed_s + 1e-9, finding_id


def test_a_gain_above_its_sum_says_how_much_is_elsewhere_or_what_else_goes(tmp_path: Path) -> None:
    host = _of(_analysed(tmp_path, _steps(every_us=40)), "launch.cpu_bound")
    assert host.touched is not None
    assert (host.touched.kernels_s, host.touched.waits_s) == (0.0, 0.0)
    assert host.simulated_s is not None
    assert host.gain_s is not None
    for sum_s, said in ((host.simulated_s * 0.8, True), (host.simulated_s * 1.2, False)):
        shown = findings.format_expected_gain(replace(host, gain_s=sum_s))
        assert (units.format_seconds(host.simulated_s - sum_s) in shown) == said
    kernels = replace(host, touched=replace(host.touched, kernels_s=1e-4), gain_s=host.simulated_s * 0.8)
    assert units.format_seconds(host.touched.cpu_s) in findings.format_expected_gain(kernels)
