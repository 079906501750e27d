"""What is done when a thread ends is done by that thread, before anybody who waits for it goes on."""

import threading

from perfkit.attach.host.thread_end import ThreadEnd


def in_a_thread(*calls: list[int], end: ThreadEnd) -> int:
    """Ask in a thread for each of `calls` to be given the thread's number at its end; returns that number."""
    numbers = []

    def work() -> None:
        numbers.append(threading.get_ident())
        for called in calls:
            end.call(lambda called=called: called.append(threading.get_ident()))
        assert not any(calls)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return numbers[0]


def test_called_by_the_thread_itself_before_it_is_joined() -> None:
    called: list[int] = []
    assert [in_a_thread(called, end=ThreadEnd())] == called


def test_the_last_wish_counts() -> None:
    first: list[int] = []
    second: list[int] = []
    number = in_a_thread(first, second, end=ThreadEnd())
    assert (first, second) == ([], [number])


def test_each_thread_has_its_own() -> None:
    end = ThreadEnd()
    called: list[int] = []
    in_a_thread(called, end=end)
    other: list[int] = []
    in_a_thread(other, end=end)
    assert (len(called), len(other)) == (1, 1)
