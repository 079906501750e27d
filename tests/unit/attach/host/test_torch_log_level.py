"""libc10's own remarks."""

import ctypes

import pytest

from perfkit.attach.host import torch_log_level
from perfkit.attach.host.torch_log_level import log_errors_only


@pytest.fixture
def level() -> ctypes.c_int:
    found = torch_log_level._find_level()
    if found is None:
        pytest.skip("this build of torch exports no such switch")
    return found


@pytest.mark.parametrize(("before", "within"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_nothing_below_errors_is_written_meanwhile(level: ctypes.c_int, before: int, within: int) -> None:
    at_first = level.value
    level.value = before
    try:
        with log_errors_only():
            assert level.value == within
        assert level.value == before
        with pytest.raises(ValueError, match="theirs"), log_errors_only():
            raise ValueError("theirs")
        assert level.value == before
    finally:
        level.value = at_first


def test_a_library_without_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_log_level, "_LEVEL", "no_such_symbol")
    with log_errors_only():
        pass
