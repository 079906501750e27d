"""libc10's own remarks."""

import ctypes

import pytest

from perfkit.attach import quiet
from perfkit.attach.quiet import only_errors


@pytest.fixture
def level() -> ctypes.c_int:
    found = quiet._level()
    if found is None:
        pytest.skip("this build of torch exports no such switch")
    return found


@pytest.mark.parametrize(("before", "within"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_nothing_below_errors_is_written_meanwhile(level: ctypes.c_int, before: int, within: int) -> None:
    at_first = level.value
    level.value = before
    try:
        with only_errors():
            assert level.value == within
        assert level.value == before
        with pytest.raises(ValueError, match="theirs"), only_errors():
            raise ValueError("theirs")
        assert level.value == before
    finally:
        level.value = at_first


def test_a_library_without_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "_LEVEL", "no_such_symbol")
    with only_errors():
        pass
