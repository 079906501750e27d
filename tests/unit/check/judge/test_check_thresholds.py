import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfkit.check.judge.check_thresholds import (
    Threshold,
    compute_margin,
    get_allowed_change,
    is_exceeded,
    parse_threshold,
)
from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity
from perfkit.core.errors import UsageError
from perfkit.core.parse_units import SUFFIXES

UNITS = sorted(SUFFIXES)
VALUES = st.floats(1e-6, 1e15)
SHARES = st.floats(1e-6, 0.9)


@pytest.mark.parametrize(
    ("text", "unit", "more_is_worse", "expected"),
    [
        ("3%", "s", True, Threshold(text="3%", relative=0.03)),
        (" 3 % ", "s", True, Threshold(text="3 %", relative=0.03)),
        ("0%", "", True, Threshold(text="0%", relative=0)),
        ("150%", "s", True, Threshold(text="150%", relative=1.5)),
        ("5%", "1/s", False, Threshold(text="5%", relative=0.05)),
        ("5%", "1", False, Threshold(text="5%", relative=0.05)),
        ("+64MiB", "bytes", True, Threshold(text="+64MiB", change=64 * 2**20)),
        ("+ 64 MiB", "bytes", True, Threshold(text="+ 64 MiB", change=64 * 2**20)),
        ("+5ms", "s", True, Threshold(text="+5ms", change=0.005)),
        ("+0", "", True, Threshold(text="+0", change=0)),
        ("+0", "bytes", True, Threshold(text="+0", change=0)),
        ("+2", "", True, Threshold(text="+2", change=2)),
        ("+2G", "FLOP", True, Threshold(text="+2G", change=2e9)),
        ("+5J", "J", True, Threshold(text="+5J", change=5)),
        ("-100", "1/s", False, Threshold(text="-100", change=100)),
        ("-0.02", "1", False, Threshold(text="-0.02", change=0.02)),
        ("<=2GiB", "bytes", True, Threshold(text="<=2GiB", limit=2 * 2**30)),
        ("<= 0.001", "1", True, Threshold(text="<= 0.001", limit=0.001)),
        (">=40%", "1", False, Threshold(text=">=40%", limit=0.4)),
        (">=1000", "1/s", False, Threshold(text=">=1000", limit=1000)),
        (0, "", True, Threshold(text="0", change=0)),
        ("0", "", True, Threshold(text="0", change=0)),
        (0, "bytes", True, Threshold(text="0", change=0)),
        (0.0, "1", False, Threshold(text="0.0", change=0)),
        ("+0", "1/s", False, Threshold(text="+0", change=0)),
    ],
)
def test_forms_of_thresholds(text: str | float, unit: str, more_is_worse: bool, expected: Threshold) -> None:
    found = parse_threshold(text, unit, more_is_worse=more_is_worse)
    assert found.text == expected.text
    for field in ("relative", "change", "limit"):
        value = getattr(expected, field)
        assert getattr(found, field) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("text", "unit", "more_is_worse", "words"),
    [
        ("64", "bytes", True, "plain number"),
        (64, "bytes", True, "a share"),
        (3, "", True, "<=2 "),
        ("3", "", True, "plain number"),
        (True, "", True, "not a threshold"),
        ("+64", "bytes", True, "'64' has no unit"),
        ("+5ms", "bytes", True, "has the unit 'ms'"),
        ("+3%", "s", True, "has no sign: 3%"),
        ("-3%", "1/s", False, "has no sign: 3%"),
        ("-2%", "1", False, "ambiguous"),
        ("-5ms", "s", True, "more is worse here"),
        ("+5", "1/s", False, "less is worse here"),
        (">=2GiB", "bytes", True, "more is worse here"),
        ("<=40%", "1", False, ">=40% "),
        ("<2GiB", "bytes", True, "up to it"),
        ("<=", "bytes", True, "not an amount"),
        ("+", "", True, "not an amount"),
        ("++2", "", True, "two signs"),
        ("+-2", "", True, "two signs"),
        ("%", "s", True, "not an amount"),
        ("120%", "1/s", False, "exceed 100%"),
        ("nan", "s", True, "expected 3% (relative)"),
        ("nan%", "s", True, "not an amount"),
        ("+inf", "", True, "not an amount"),
        ("", "s", True, "units: us, ms, s, m, min"),
        ("fast", "s", True, "<=5ms "),
    ],
)
def test_what_is_no_threshold_is_refused_with_the_forms_of_the_quantity(
    text: str | float, unit: str, more_is_worse: bool, words: str
) -> None:
    with pytest.raises(UsageError) as error:
        parse_threshold(text, unit, more_is_worse=more_is_worse)
    assert words in str(error.value)
    assert "3% (relative)" in str(error.value)


@pytest.mark.parametrize("quantity", [each for each in QUANTITIES if each.default], ids=lambda each: str(each.name))
def test_the_defaults_of_the_table_are_thresholds_of_their_quantity(quantity: GatedQuantity) -> None:
    assert quantity.default is not None
    assert parse_threshold(quantity.default, quantity.unit, more_is_worse=quantity.more_is_worse)


@given(text=st.text(max_size=12), unit=st.sampled_from(UNITS), more_is_worse=st.booleans())
def test_any_text_has_one_meaning_or_is_a_usage_error(text: str, unit: str, more_is_worse: bool) -> None:
    try:
        found = parse_threshold(text, unit, more_is_worse=more_is_worse)
    except UsageError:
        return
    (value,) = [each for each in (found.relative, found.change, found.limit) if each is not None]
    assert 0 <= value < float("inf")


@given(number=st.floats(0, 1e9), unit=st.sampled_from(UNITS), more_is_worse=st.booleans(), data=st.data())
def test_every_form_is_read_as_it_is_written(
    number: float, unit: str, more_is_worse: bool, data: st.DataObject
) -> None:
    suffix = data.draw(st.sampled_from(sorted(each for each in SUFFIXES[unit] if each != "%")))
    sign, limit = ("+", "<=") if more_is_worse else ("-", ">=")
    worth = number * SUFFIXES[unit][suffix]
    change = parse_threshold(f"{sign}{number!r}{suffix}", unit, more_is_worse=more_is_worse)
    bound = parse_threshold(f"{limit}{number!r}{suffix}", unit, more_is_worse=more_is_worse)
    assert (change.relative, change.limit, bound.relative, bound.change) == (None,) * 4
    assert (change.change, bound.limit) == (pytest.approx(worth), pytest.approx(worth))


@pytest.mark.parametrize(
    ("threshold", "before", "after", "more_is_worse", "expected"),
    [
        (Threshold(text="", relative=0.005), 200, 201, True, False),
        (Threshold(text="", relative=0.005), 200, 201.01, True, True),
        (Threshold(text="", relative=0.005), 200, 100, True, False),
        (Threshold(text="", relative=0.05), 100, 95, False, False),
        (Threshold(text="", relative=0.05), 100, 94, False, True),
        (Threshold(text="", relative=0.0), 722, 722, True, False),
        (Threshold(text="", relative=0.0), 722, 723, True, True),
        (Threshold(text="", relative=0.5), 0, 1, True, True),
        (Threshold(text="", change=2), 0, 2, True, False),
        (Threshold(text="", change=2), 0, 3, True, True),
        (Threshold(text="", change=100), 1000, 899, False, True),
        (Threshold(text="", limit=10), 50, 10, True, False),
        (Threshold(text="", limit=10), 1, 11, True, True),
        (Threshold(text="", limit=0.4), 0.5, 0.4, False, False),
        (Threshold(text="", limit=0.4), 0.1, 0.39, False, True),
    ],
)
def test_what_exceeds(threshold: Threshold, before: float, after: float, more_is_worse: bool, expected: bool) -> None:
    assert is_exceeded(threshold, before, after, more_is_worse=more_is_worse) is expected


@given(before=VALUES, share=SHARES, more_is_worse=st.booleans())
def test_exactly_the_threshold_is_allowed_and_a_little_more_is_not(
    before: float, share: float, more_is_worse: bool
) -> None:
    threshold = Threshold(text="", relative=share)
    sign = 1 if more_is_worse else -1
    assert not is_exceeded(threshold, before, before * (1 + sign * share * 0.999), more_is_worse=more_is_worse)
    assert is_exceeded(threshold, before, before * (1 + sign * share * 1.001), more_is_worse=more_is_worse)


@given(
    before=VALUES,
    after=VALUES,
    kind=st.sampled_from(["relative", "change", "limit"]),
    amount=VALUES,
    more_is_worse=st.booleans(),
)
def test_the_margin_is_what_may_be_used_up(
    before: float, after: float, kind: str, amount: float, more_is_worse: bool
) -> None:
    threshold = Threshold(**{"text": "", kind: amount})
    allowed = compute_margin(threshold, before, more_is_worse=more_is_worse)
    assert allowed is not None
    worse = (after / before - 1) * (1 if more_is_worse else -1)
    assume(abs(worse - allowed) > 1e-9 * max(1, abs(allowed)))
    assert is_exceeded(threshold, before, after, more_is_worse=more_is_worse) == (worse > allowed)


def test_of_nothing_no_share_is_known() -> None:
    assert compute_margin(Threshold(text="", change=2), 0) is None
    assert compute_margin(Threshold(text="", limit=2), 0) is None
    assert compute_margin(Threshold(text="", relative=0.1), 0) == 0.1


def test_a_limit_that_is_passed_already_leaves_less_than_nothing() -> None:
    assert compute_margin(Threshold(text="", limit=8), 10) == pytest.approx(-0.2)


def test_what_a_threshold_allows_in_the_unit_of_the_quantity() -> None:
    assert get_allowed_change(Threshold(text="", relative=0.1), 50) == 5
    assert get_allowed_change(Threshold(text="", change=3), 50) == 3
