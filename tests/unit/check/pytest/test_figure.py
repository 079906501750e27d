"""Figures in words, and as the numbers that they are."""

import copy
import pickle

import pytest

from perfkit.check.pytest.figure import Figure, Meaning, format_amount, format_change


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2**31, "bytes", "2.00 GiB (2,147,483,648)"),
        (1000, "bytes", "1,000 B"),
        (2.5e9, "FLOP", "2.50 GFLOP (2,500,000,000)"),
        (12, "", "12"),
    ],
)
def test_amounts_are_exact_beside_the_rounded_ones(value: float, unit: str, text: str) -> None:
    assert format_amount(value, unit) == text


def test_changes_have_a_sign_and_are_relative_where_that_says_something() -> None:
    assert format_change(2**20, 2**20 + 2**10, "bytes") == "+1.00 KiB, +0.10 %"
    assert format_change(4, 3, "") == "-1, -25.00 %"
    assert format_change(0, 3, "") == "+3"
    assert format_change(1, 500, "") == "+499"


def test_a_figure_is_an_int() -> None:
    figure = Figure(12.0, Meaning("calls"))
    assert figure == 12
    assert figure + 1 == 13
    assert type(figure + 1) is int
    assert type(pickle.loads(pickle.dumps(figure))) is int
    assert copy.deepcopy(figure) == 12
