import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.check.judge.quantities import QUANTITIES
from perfkit.core.errors import UsageError
from perfkit.core.parse_units import EXAMPLES, SUFFIXES, format_amount, format_precise_amount, parse_amount

UNITS = sorted(SUFFIXES)


def test_every_quantity_has_a_unit_that_can_be_written() -> None:
    assert {quantity.unit for quantity in QUANTITIES} <= SUFFIXES.keys() == EXAMPLES.keys()


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("64MiB", "bytes", 64 * 2**20),
        ("64 MiB", "bytes", 64 * 2**20),
        ("1.5GiB", "bytes", 1.5 * 2**30),
        ("2KB", "bytes", 2000),
        ("2kB", "bytes", 2000),
        ("512B", "bytes", 512),
        ("1TiB", "bytes", 2**40),
        ("0", "bytes", 0),
        ("5ms", "s", 0.005),
        ("250us", "s", 250e-6),
        ("1.5s", "s", 1.5),
        ("3min", "s", 180),
        ("10m", "s", 600),
        ("0", "s", 0),
        ("5", "J", 5),
        ("5mJ", "J", 0.005),
        ("2kJ", "J", 2000),
        ("1.5G", "FLOP", 1.5e9),
        ("1.5GFLOP", "FLOP", 1.5e9),
        ("1e9", "FLOP", 1e9),
        ("40%", "1", 0.4),
        (".001", "1", 0.001),
        ("2", "", 2),
        ("1k", "1/s", 1000),
    ],
)
def test_amounts_are_read_in_the_unit_of_the_quantity(text: str, unit: str, value: float) -> None:
    assert parse_amount(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "unit", "words"),
    [
        ("64", "bytes", "has no unit: expected one of B, kB, MB"),
        ("64", "s", "has no unit: expected one of us, ms, s, m, min, h, such as 5ms"),
        ("5ms", "bytes", "has the unit 'ms'"),
        ("64MIB", "bytes", "has the unit 'MIB'"),
        ("2MiB", "", "no unit"),
        ("-1s", "s", "non-negative"),
        ("1e999s", "s", "finite"),
        ("1e300TiB", "bytes", "finite"),
        ("nan", "", "not an amount"),
        ("inf", "", "not an amount"),
        ("", "bytes", "not an amount"),
        ("1 000B", "bytes", "not an amount"),
        ("1,5s", "s", "not an amount"),
    ],
)
def test_what_is_no_amount_is_refused_with_what_is_expected(text: str, unit: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_amount(text, unit)
    assert words in str(error.value)


@pytest.mark.parametrize("unit", UNITS)
def test_the_examples_are_amounts(unit: str) -> None:
    assert parse_amount(EXAMPLES[unit], unit) > 0


@given(unit=st.sampled_from(UNITS), number=st.floats(0, 1e12), data=st.data())
def test_any_number_with_any_suffix_of_the_unit_is_read(unit: str, number: float, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(sorted(SUFFIXES[unit])))
    assert parse_amount(f"{number!r}{suffix}", unit) == pytest.approx(number * SUFFIXES[unit][suffix])


@given(unit=st.sampled_from(UNITS), text=st.text(max_size=12))
def test_any_text_is_an_amount_that_is_not_negative_or_a_usage_error(unit: str, text: str) -> None:
    try:
        value = parse_amount(text, unit)
    except UsageError:
        return
    assert 0 <= value < float("inf")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2**20, "bytes", "1.00 MiB"),
        (0.005, "s", "5.00 ms"),
        (1.5e9, "FLOP", "1.50 GFLOP"),
        (0.5, "J", "0.500 J"),
        (0.4123, "1", "41.2 %"),
        (0.0, "1", "0 %"),
        (8.76e-8, "1", "8.8e-08"),
        (1234.4, "1/s", "1,234/s"),
        (1500, "", "1,500"),
        (1500.5, "", "1,500.5"),
    ],
)
def test_amounts_in_words(value: float, unit: str, text: str) -> None:
    assert format_amount(value, unit) == text


def test_two_values_that_read_alike_are_told_apart() -> None:
    assert format_amount(85_671_252, "bytes") == format_amount(85_671_320, "bytes")
    assert format_precise_amount(85_671_252, "bytes") == "85,671,252 B"
    assert format_precise_amount(1.00000012, "s") == "1.00000012 s"
    assert format_precise_amount(3, "") == "3"
