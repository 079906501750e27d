"""Numbers as they are written, with the error of their last digit."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.mfu.written_number import parse_claim, parse_count, parse_flop_rate, parse_seconds


@pytest.mark.parametrize(
    ("text", "value", "error"),
    [
        ("5762", 5762, 0.5 / 5762),
        ("529,882", 529882, 0.5 / 529882),
        ("8b", 8e9, 0.5 / 8),
        ("8.03B", 8.03e9, 0.005 / 8.03),
        ("24k", 24e3, 0.5 / 24),
        ("1e6", 1e6, 0.5),
    ],
)
def test_counts(text: str, value: float, error: float) -> None:
    number = parse_count(text, "--params")
    assert number.value == pytest.approx(value)
    assert number.error == pytest.approx(error)


def test_a_number_that_nobody_wrote_is_exact() -> None:
    assert parse_count(5762.0, "") == (5762.0, 0.0)


@pytest.mark.parametrize(("text", "value"), [("893.76ms", 0.89376), ("13.5h", 48600), ("2min", 120), ("1.2s", 1.2)])
def test_times(text: str, value: float) -> None:
    assert parse_seconds(text, "--step").value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("41.2%", 0.412, "1"),
        ("0.412", 0.412, "1"),
        ("198TFLOP/s", 198e12, "FLOP/s"),
        ("198 TFLOPS", 198e12, "FLOP/s"),
        ("180 TFLOPs/s/GPU", 180e12, "FLOP/s"),
        ("57.9GFLOP", 57.9e9, "FLOP/token"),
        ("57.9 GFLOPs/token", 57.9e9, "FLOP/token"),
    ],
)
def test_claims(text: str, value: float, unit: str) -> None:
    claim = parse_claim(text)
    assert claim.number.value == pytest.approx(value)
    assert claim.unit == unit


@pytest.mark.parametrize("text", ["41.2", "much", "-3%", "0%", ""])
def test_no_claim(text: str) -> None:
    with pytest.raises(UsageError):
        parse_claim(text)


def test_what_is_no_number_names_its_option() -> None:
    for parse in (parse_count, parse_seconds, parse_flop_rate):
        for text in ("many", "0", "5 bananas"):
            with pytest.raises(UsageError, match="--given"):
                parse(text, "--given")
