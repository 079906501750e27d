"""How much of an exception is kept."""

from traceback import TracebackException

import pytest

from perfkit.core.note import make_note
from perfkit.core.texts.error_text import (
    LINE_CHARS,
    TEXT_CHARS,
    cap_line,
    cap_text,
    format_first_line,
    format_traceback,
)

LONG = "a" + "ü" * 3_000_000 + "z"


def make_long_error() -> BaseException:
    error = ValueError(f"{LONG}\n{LONG}")
    error.__cause__ = KeyError(LONG)
    return error


@pytest.mark.parametrize(("cap", "most"), [(cap_text, TEXT_CHARS), (cap_line, LINE_CHARS)])
def test_the_beginning_the_end_and_how_much_was_between_are_kept(cap, most: int) -> None:
    assert cap("x" * most) == "x" * most
    shown = cap(LONG)
    assert (shown[:2], shown[-2:]) == ("aü", "üz")
    assert most < len(shown) < most + 100
    assert f"{2 * (len(LONG) - most):,} bytes" in shown  # in UTF-8


def test_first_line() -> None:
    assert format_first_line(ValueError("one\ntwo")) == "ValueError: one"
    assert format_first_line(ValueError()) == "ValueError"
    assert len(format_first_line(make_long_error())) < LINE_CHARS + 100


def test_a_traceback_keeps_its_beginning_and_its_end() -> None:
    shown = format_traceback(TracebackException.from_exception(make_long_error()))
    assert len(shown) < TEXT_CHARS + 100
    assert shown.startswith("KeyError: ")
    assert shown.endswith("üz")


def test_a_note_is_bounded_too() -> None:
    assert len(make_note("recording.open_range", LONG).text) < TEXT_CHARS + 100
