"""How often a step is as long as each length: counted by hand."""

import math

import pytest

from perfkit.analysis.model.plan import Interval, PlannedLength
from perfkit.plan.variants.length_odds import compute_exceeding_share, compute_expected_steps, compute_longest_shares


def make_length(tokens: int, share: float, low: float, value: float, high: float) -> PlannedLength:
    needed = Interval(value=value, low=low, high=high)
    return PlannedLength(tokens=tokens, batch_share=share, step_share=share, needed=needed)


def test_one_draw_is_the_distribution_itself() -> None:
    assert compute_longest_shares({512: 0.7, 4096: 0.3}, 1) == pytest.approx({512: 0.7, 4096: 0.3})


def test_the_longest_of_two_draws() -> None:
    # Both short: 0.5 * 0.5; none long: (0.5 + 0.3)^2 = 0.64.
    shares = compute_longest_shares({4: 0.2, 1: 0.5, 2: 0.3}, 2)
    assert shares == pytest.approx({1: 0.25, 2: 0.39, 4: 0.36})
    assert [*shares] == [1, 2, 4]


def test_a_long_sequence_that_is_rare_is_in_one_of_many_batches() -> None:
    # 1 - (1 - p)^8 = 1/246 for p = 0.000509...
    rare = 1 - (1 - 1 / 246) ** (1 / 8)
    shares = compute_longest_shares({512: 1 - rare, 4096: rare}, 8)
    assert compute_expected_steps(shares[4096]) == pytest.approx(246)
    tiny = compute_longest_shares({512: 1 - 1e-14, 4096: 1e-14}, 100)
    assert tiny[4096] == pytest.approx(1e-12, rel=1e-6)


def test_shares_add_up_to_one_even_if_those_that_are_given_nearly_do() -> None:
    assert sum(compute_longest_shares({1: 0.3333, 2: 0.3333, 3: 0.3333}, 7).values()) == pytest.approx(1)
    assert sum(compute_longest_shares({1: 0.5004, 2: 0.5}, 3).values()) == pytest.approx(1)


def test_the_share_that_exceeds_a_limit_has_the_bounds_of_the_needs() -> None:
    lengths = [
        make_length(1, 0.9, 8, 9, 10), make_length(2, 0.06, 9, 10, 11), make_length(3, 0.03, 9, 11, 12),
        make_length(4, 0.01, 11, 12, 13),
    ]  # fmt: skip
    share = compute_exceeding_share(lengths, 10)
    assert share is not None
    assert (share.low, share.value, share.high) == pytest.approx((0.01, 0.04, 0.1))
    assert compute_exceeding_share(lengths, None) is None
    assert compute_exceeding_share([PlannedLength(tokens=1, batch_share=1, step_share=1)], 10) is None
    assert math.isinf(compute_expected_steps(0.0))
