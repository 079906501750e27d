import math

import pytest

from perfkit.core import units


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234.5, "1,234"), (0.01234, "0.0123"), (9.876, "9.88"), (-12.34, "-12.3"), (1e6, "1,000,000")],
)
def test_significant_has_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert units.format_significant(value) == text


@pytest.mark.parametrize(("value", "text"), [(9.999, "10.0"), (99.99, "100"), (0.9999, "1.00"), (0.09996, "0.100")])
def test_a_value_that_rounds_up_to_a_power_of_ten_keeps_three_digits(value: float, text: str) -> None:
    assert units.format_significant(value) == text


def test_values_that_are_not_finite_are_said_to_be_so() -> None:
    assert units.format_significant(math.inf) == "inf"
    assert units.format_significant(math.nan) == "nan"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.5e12, "2.50 TFLOP/s"),
        (989.4e12, "989 TFLOP/s"),
        (1.2e15, "1.20 PFLOP/s"),
        (1e3, "1.00 kFLOP/s"),
        (12.0, "12.0 FLOP/s"),
    ],
)
def test_rates_use_powers_of_a_thousand(value: float, text: str) -> None:
    assert units.format_flop_rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.9e9, "1.00 TFLOP"), (999.9e12, "1.00 PFLOP"), (999.4e9, "999 GFLOP")],
)
def test_a_value_that_rounds_up_to_a_thousand_takes_the_next_prefix(value: float, text: str) -> None:
    assert units.format_flops(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (3 * 2**30, "3.00 GiB"),
        (80 * 2**30, "80.0 GiB"),
        (-(2**20), "-1.00 MiB"),
    ],
)
def test_memory_uses_powers_of_1024(value: float, text: str) -> None:
    assert units.format_bytes(value) == text


def test_bandwidth_is_always_in_gb_per_s() -> None:
    assert units.format_bandwidth(3.35e12) == "3,350 GB/s"
    assert units.format_bandwidth(5e8) == "0.500 GB/s"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (0.0123, "12.3 ms"),
        (45e-6, "45.0 us"),
        (2e-10, "0.200 ns"),
        (1.5, "1.50 s"),
        (119.4, "119 s"),
        (150, "2 min 30 s"),
        (-0.5, "-500 ms"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert units.format_seconds(value) == text


def test_minutes_never_show_sixty_seconds() -> None:
    assert units.format_seconds(179.7) == "3 min 0 s"


def test_shares_and_changes() -> None:
    assert units.format_percent(0.1234) == "12.3 %"
    assert units.format_percent(0.5, digits=0) == "50 %"
    assert units.format_signed_percent(0.05) == "+5.0 %"
    assert units.format_signed_percent(-0.031) == "-3.1 %"
