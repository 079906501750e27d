import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.record import Measurement, Unknown, value_of
from perfkit.store.summary import Summary
from perfkit_reports import summaries
from perfkit_reports.subjects.memory.document import summary
from perfkit_reports.write import as_json
from tests.fixtures import sample_analysis, sample_memory_analysis, sample_trace_analysis

SUITES = ("realistic", "every_status", "nothing_measured")


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_in_short(name: str) -> None:
    analysis: Analysis = getattr(sample_analysis, name)()
    summary = summaries.of_suite(analysis)
    assert [(outcome.variant, outcome.status) for outcome in summary.outcomes] == [
        (variant.name, variant.status) for variant in analysis.variants
    ]
    assert len(as_json(summary)) < 10_000
    assert msgspec.json.decode(as_json(summary), type=Summary) == summary


def test_the_figures_of_a_suite_are_those_of_one_variant() -> None:
    analysis = sample_analysis.realistic()
    figures = summaries.of_suite(analysis).figures
    (shown,) = (variant for variant in analysis.variants if variant.name == figures.of)
    assert not shown.is_baseline
    assert value_of(figures.step) == getattr(shown.step_time, "value", None)
    assert isinstance(figures.throughput, Measurement)
    assert figures.throughput.unit.endswith("/s")
    assert figures.mfu == shown.mfu


def test_without_measurements_every_figure_has_its_reason() -> None:
    figures = summaries.of_suite(sample_analysis.nothing_measured()).figures
    assert isinstance(figures.step, Unknown)
    assert figures.step.reason


def test_a_trace_and_a_memory_report_in_short() -> None:
    traces = summaries.of_traces(sample_trace_analysis.realistic())
    assert (traces.kind, isinstance(traces.figures.step, Measurement)) == ("trace", True)
    memory = sample_memory_analysis.realistic()
    found = summary(memory)
    assert value_of(found.figures.peak) == max(account.peak_bytes for account in memory.accounts)
    assert isinstance(summary(sample_memory_analysis.nothing()).figures.peak, Unknown)
