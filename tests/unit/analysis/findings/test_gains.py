"""What findings gain as the replay has it: where the host is the limit, where the device is, where it is not known."""

from pathlib import Path

import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit_reports import findings
from perfkit_reports.subjects.trace.improvements import list_improvements
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


def test_the_headline_names_what_a_replay_says_saves_most(tmp_path: Path) -> None:
    by_host = _analysed(tmp_path / "host", _steps(every_us=40))
    best = max(list_improvements(by_host.traces[0]), key=lambda way: way.saving_s)
    assert (best.ids, best.simulated, round(best.saving_s * 1e6)) == (("launch.cpu_bound",), True, 910)
    assert "910 us" in build_headline(by_host)
    unexplained = _analysed(tmp_path / "late", _steps(every_us=40, late_us=900))
    assert not any(way.simulated for way in list_improvements(unexplained.traces[0]))
    assert "up to" in build_headline(unexplained)


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
