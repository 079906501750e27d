"""The spread of calls by group, against NumPy's percentiles."""

import numpy as np
import pytest

from perfkit.analysis.trace.work.call_spread import measure_spread


def test_each_group_has_its_own_spread() -> None:
    random = np.random.default_rng(3)
    group, time_ns = random.integers(0, 4, 300), random.integers(1_000, 90_000, 300)
    found = measure_spread(group, time_ns, 4)
    for number in range(4):
        its = time_ns[group == number] / 1e9
        assert found.calls[number] == len(its)
        assert found.least_s[number] == its.min()
        assert found.median_s[number] == pytest.approx(np.median(its), rel=1e-12)
        assert found.p99_s[number] == pytest.approx(np.percentile(its, 99), rel=1e-12)


def test_groups_of_one_call_and_of_none() -> None:
    found = measure_spread(np.asarray([2, 0, 0]), np.asarray([7_000, 1_000, 3_000]), 3)
    assert found.calls.tolist() == [2, 0, 1]
    assert found.median_s[[0, 2]].tolist() == pytest.approx([2e-6, 7e-6])
    assert np.isnan([found.least_s[1], found.median_s[1], found.p99_s[1]]).all()
    assert measure_spread(np.empty(0, np.int64), np.empty(0, np.int64), 0).calls.tolist() == []
