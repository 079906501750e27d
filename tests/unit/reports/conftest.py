"""The analyses that every renderer is tested with."""

import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.check.judge.result import Check
from tests.fixtures import sample_analysis, sample_checks, sample_trace_analysis


@pytest.fixture(scope="session")
def realistic() -> Analysis:
    return sample_analysis.realistic()


@pytest.fixture(scope="session")
def every_status() -> Analysis:
    return sample_analysis.every_status()


@pytest.fixture(scope="session")
def nothing_measured() -> Analysis:
    return sample_analysis.nothing_measured()


@pytest.fixture(params=["realistic", "every_status", "nothing_measured"])
def analysis(request: pytest.FixtureRequest) -> Analysis:
    """Each of them in turn."""
    chosen: Analysis = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(
    params=["realistic", "alone", "without_shapes", "unknown_device", "cpu_only", "nothing", "hostile", "many_ranks"]
)
def traces(request: pytest.FixtureRequest) -> TraceAnalysis:
    """Each analysis of traces in turn."""
    made: TraceAnalysis = getattr(sample_trace_analysis, request.param)()
    return made


@pytest.fixture(scope="session", params=sorted(sample_checks.ALL))
def check(request: pytest.FixtureRequest) -> Check:
    """Each check in turn."""
    return sample_checks.ALL[request.param]()


@pytest.fixture(scope="session")
def every_verdict() -> Check:
    return sample_checks.every_verdict()
