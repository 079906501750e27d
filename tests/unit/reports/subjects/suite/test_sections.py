import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.core.record.quantity import Measurement, Unknown, get_value
from perfkit.store.summary import ReportSummary
from perfkit_reports.document.raw import encode_json
from perfkit_reports.subjects.suite.sections import summarize_suite as short
from tests.fixtures import sample_analysis

SUITES = ("realistic", "every_status", "nothing_measured")


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_in_short(name: str) -> None:
    analysis: Analysis = getattr(sample_analysis, name)()
    summary = short(analysis, "amp wins")
    assert (summary.headline, summary.conclusion) == ("amp wins", analysis.conclusion)
    assert [(outcome.variant, outcome.status) for outcome in summary.outcomes] == [
        (variant.name, variant.status) for variant in analysis.variants
    ]
    assert len(encode_json(summary)) < 10_000
    assert msgspec.json.decode(encode_json(summary), type=ReportSummary) == summary


def test_the_figures_of_a_suite_are_those_of_one_variant() -> None:
    analysis = sample_analysis.realistic()
    figures = short(analysis, "").figures
    (shown,) = (variant for variant in analysis.variants if variant.name == figures.subject)
    assert not shown.is_baseline
    assert get_value(figures.step) == getattr(shown.step_time, "value", None)
    assert isinstance(figures.throughput, Measurement)
    assert figures.throughput.unit.endswith("/s")
    assert figures.mfu == shown.mfu


def test_without_measurements_every_figure_has_its_reason() -> None:
    figures = short(sample_analysis.nothing_measured(), "").figures
    assert isinstance(figures.step, Unknown)
    assert figures.step.reason
