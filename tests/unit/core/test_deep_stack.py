import threading

import pytest

from perfkit.core import deep_stack
from perfkit.core.deep_stack import call_on_deep_stack


def nested(depth: int) -> tuple[object, ...]:
    value: tuple[object, ...] = ()
    for _ in range(depth):
        value = (value,)
    return value


def test_a_recursion_in_c_that_an_ordinary_stack_does_not_hold() -> None:
    deep = nested(400_000)
    assert isinstance(call_on_deep_stack(lambda: hash(deep), 400_000 * 256), int)


def test_an_error_comes_through_and_threads_are_made_as_before() -> None:
    before = threading.stack_size()
    with pytest.raises(ZeroDivisionError):
        call_on_deep_stack(lambda: 1 // 0, 1 << 20)
    assert threading.stack_size() == before


def test_where_the_system_refuses_a_stack_a_smaller_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    start = threading.Thread.start

    def refusing(thread: threading.Thread) -> None:
        tried.append(threading.stack_size())
        if tried[-1] > 32 << 20:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(deep_stack.threading.Thread, "start", refusing)
    assert call_on_deep_stack(lambda: 7, 100 << 20) == 7
    assert tried == [100 << 20, 50 << 20, 25 << 20]
