"""Figures of one page agree: as recorded, and on the clock of timed steps."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.replay import TouchedTime
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.pipeline.trace_findings import collect_view_findings
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.suite.timed_traces import apply_timed_clock
from perfkit.analysis.trace.findings.trace_view import TraceView
from tests.fixtures.agreeing_gains import list_contradictions

_ROOT = Path(__file__).parents[4]
_RECORDED = _ROOT / "tests" / "fixtures" / "recorded"
_SHORT = _RECORDED / "changed_programs" / "half_the_layers.before.json.gz"
# Of a slow first step, its traced mean is 1.4 times its median.
_UNEVEN = _RECORDED / "h200" / "nccl_rank0.json.gz"
TRACES = [
    _RECORDED / "mi250_toy_train.json.gz",
    _SHORT,
    pytest.param(_RECORDED / "changed_programs" / "sleeping_loader.before.json.gz", marks=pytest.mark.slow),
    pytest.param(_UNEVEN, marks=pytest.mark.slow),
    pytest.param(_ROOT / "examples" / "h100_qwen1.5_forward.json.gz", marks=pytest.mark.slow),
]
_TIMED_S = 4e-3


@pytest.fixture(scope="module", params=TRACES, ids=lambda path: path.name)
def recorded(request: pytest.FixtureRequest) -> TraceAnalysis:
    return analyze_traces([str(request.param)], jobs=1)


def test_a_recorded_trace_does_not_contradict_itself(recorded: TraceAnalysis) -> None:
    (trace,) = recorded.traces
    assert [*list_contradictions(trace, recorded.findings)] == []


def test_on_the_clock_of_timed_steps_it_does_not_either(recorded: TraceAnalysis) -> None:
    estimate = MedianEstimate(value=_TIMED_S, unit="s", per_process=(_TIMED_S,))
    (trace,) = apply_timed_clock(PassResults(traces=recorded.traces), estimate).traces
    assert trace.step_s == pytest.approx(_TIMED_S)
    assert sum(part.seconds for part in trace.time_split) == pytest.approx(_TIMED_S)
    findings = [finding for _, finding in collect_view_findings([TraceView(trace, _TIMED_S)])]
    assert [*list_contradictions(trace, findings)] == []


def test_contradictions_are_found() -> None:
    analysis = analyze_traces([str(_SHORT)], jobs=1)
    (trace,), findings = analysis.traces, analysis.findings
    gains = trace.gains
    assert gains is not None
    assert gains.together_s is not None
    assert [*list_contradictions(replace(trace, step_s=trace.step_s * 2), findings)] != []
    assert [*list_contradictions(replace(trace, gains=replace(gains, together_s=2 * gains.together_s)), ())] != []
    nothing = TouchedTime(kernels_s=0.0, gaps_s=0.0, cpu_s=0.0, waits_s=0.0)
    found = next(finding for finding in findings if finding.simulated_s)
    assert [*list_contradictions(trace, [replace(found, touched=nothing)])] != []
    assert [*list_contradictions(trace, [replace(found, figures={"time_s": 2 * trace.step_s})])] != []
