import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.check.judge.check_thresholds import Threshold
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit_reports.document.cells import Mark
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.check import quantities as cells

FIVE = Threshold(text="5%", relative=0.05)
JUDGED = JudgedQuantity(
    quantity="flops", title="FLOPs", unit="FLOP", more_is_worse=True, verdict=Verdict.PASS, reason="r", exact=True
)


def judged(**changes: object) -> JudgedQuantity:
    return msgspec.structs.replace(JUDGED, **changes)


def test_sides_that_differ_are_never_shown_alike() -> None:
    close = judged(before=2.173e10, after=2.173e10 + 1, change=1 / 2.173e10)
    assert cells.make_before_cell(close).text == "21,730,000,000 FLOP"
    assert cells.make_after_cell(close).text == "21,730,000,001 FLOP"
    assert cells.make_change_cell(close).text == "+4.6e-09 %"


def test_a_share_names_its_whole() -> None:
    assert cells.make_title_cell(judged(title="MFU", of="989 TFLOP/s (bf16)")).detail == "of 989 TFLOP/s (bf16)"
    assert cells.make_title_cell(judged()).detail == ""


def test_a_change_from_nothing_is_absolute() -> None:
    assert cells.make_change_cell(judged(unit="", before=0.0, after=3.0)).text == "+3"
    assert cells.make_change_cell(judged(unit="bytes", before=0.0, after=-2048.0)).text == "-2.00 KiB"


def test_what_is_not_known_is_not_a_number() -> None:
    missing = judged(verdict=Verdict.NOT_COMPARED, reason="not measured")
    assert (cells.make_before_cell(missing).text, cells.make_before_cell(missing).reason) == ("n/a", "not measured")
    assert cells.make_change_cell(missing).text == "–"
    assert cells.make_before_cell(judged(after=0.1)).text == "–"  # a limit needs no value before


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "+0.0 %"), (0.0714, "+7.1 %"), (-0.25, "-25.0 %"), (0.0005, "+0.1 %"), (0.0001, "+1.0e-02 %")],
)
def test_a_change_has_a_sign_and_is_never_rounded_to_nothing(value: float, text: str) -> None:
    assert cells.format_change(value) == text


def test_an_interval_names_its_unit_once() -> None:
    estimated = judged(before=1.0, after=1.07, change=0.07, low=0.06, high=0.08, exact=False)
    assert cells.make_change_cell(estimated).detail == "+6.0 to +8.0 %"
    assert cells.make_change_cell(judged(before=1.0, after=1.2, change=0.2)).detail == "exactly"
    assert cells.make_change_cell(judged(before=1.0, after=1.0, change=0.0, exact=False)).detail == ""


def test_what_is_counted_and_equal_is_the_same() -> None:
    assert cells.make_change_cell(judged(before=1.0, after=1.0, change=0.0)).text == "same"
    assert cells.make_change_cell(judged(before=1.0, after=1.0, change=0.0, exact=False)).text == "+0.0 %"


def test_every_verdict_has_a_symbol_of_its_own() -> None:
    assert (
        len({cells.format_verdict(verdict) for verdict in Verdict}) == len(Verdict) == len(set(cells.SYMBOLS.values()))
    )


@given(st.text(st.characters(exclude_categories=())))
def test_one_line_is_a_line_that_can_be_encoded(text: str) -> None:
    shown = flatten_text(text)
    assert len(shown.splitlines()) <= 1
    assert flatten_text(shown) == shown
    shown.encode()


def mark(threshold: Threshold | None = FIVE, **fields: object) -> Mark | None:
    given = {"before": 1.0, "after": 1.05, "change": 0.05, "verdict": Verdict.PASS, "more_is_worse": True, **fields}
    return cells.build_mark(judged(threshold=threshold, **given))


def test_a_mark_is_the_share_of_what_is_allowed() -> None:
    assert mark(change=0.0) == Mark(0.0)
    assert mark(change=0.025, low=0.0, high=0.05) == Mark(pytest.approx(0.5), 0.0, pytest.approx(1.0))


def test_worse_is_more_also_where_less_is_worse() -> None:
    assert mark(change=-0.05, low=-0.1, high=0.0, more_is_worse=False) == Mark(
        pytest.approx(1.0), 0.0, pytest.approx(2.0)
    )


def test_a_threshold_of_nothing_is_passed_by_no_change_alone() -> None:
    none = Threshold(text="0%", relative=0.0)
    assert mark(none, change=0.0) == Mark(0.0)
    assert mark(none, change=1e-6) == Mark(math.inf)


def test_counts_from_zero_and_distances_have_no_relative_change() -> None:
    count = Threshold(text="+2", change=2.0)
    assert mark(count, before=0.0, after=1.0, change=None) == Mark(0.5)
    assert mark(Threshold(text="<=0.001", limit=0.001), before=None, after=0.001, change=None) == Mark(1.0)


def test_shapes_tell_verdicts_apart_without_color() -> None:
    shapes = [mark(verdict=verdict).shape for verdict in Verdict if verdict is not Verdict.NOT_COMPARED]
    assert len(set(shapes)) == len(shapes)


def test_nothing_is_marked_without_threshold_or_figure() -> None:
    assert mark(None) is None
    assert mark(after=None, change=None) is None
