import math

import pytest

from perfkit.core.errors import UsageError
from perfkit.measure.rank.limits import check_limits


@pytest.mark.parametrize("timeout_s", [0.0, 0.2, -1.0, math.nan, math.inf, 1e9])
def test_a_timeout_that_cannot_be_kept(timeout_s: float) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        check_limits(timeout_s, None)


@pytest.mark.parametrize("limit", [0, 6, 6 * 10**6])
def test_a_memory_limit_that_not_even_importing_torch_fits_into_is_questioned(limit: int) -> None:
    with pytest.raises(UsageError, match="--memory-limit"):
        check_limits(600.0, limit)


def test_plausible_limits() -> None:
    check_limits(1.0, 3 * 2**30)
    check_limits(86400.0, None)
