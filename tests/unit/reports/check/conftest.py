"""The checks that every renderer is tested with."""

import pytest

from perfkit.check.result import Check
from tests.fixtures import sample_checks


@pytest.fixture(scope="session", params=sorted(sample_checks.ALL))
def check(request: pytest.FixtureRequest) -> Check:
    """Each of them in turn."""
    return sample_checks.ALL[request.param]()


@pytest.fixture(scope="session")
def every_verdict() -> Check:
    return sample_checks.every_verdict()
