import time

import pytest

from perfkit.measure.launch.process_output import Deadline, read_lines
from perfkit.measure.launch.rank_processes import RankProcess, end_ranks

PATH = {"PATH": "/usr/bin:/bin"}


def shell(script: str) -> RankProcess:
    return RankProcess(["sh", "-c", script], env=PATH, stdout=-1)


def test_lines_are_whole_and_the_end_is_told() -> None:
    processes = [shell("printf 'tim'; sleep 0.1; printf 'ed steps\\nmemory\\n'"), shell("sleep 0.3; printf half")]
    heard = list(read_lines(processes, Deadline(10.0)))
    end_ranks(processes)
    assert heard == [(0, "timed steps"), (0, "memory"), (0, None), (1, None)]


def test_one_that_has_closed_its_output_and_goes_on_has_not_ended() -> None:
    process = shell("exec >&-; sleep 60")
    with pytest.raises(TimeoutError):
        list(read_lines([process], Deadline(0.2)))
    end_ranks([process])


def test_one_that_ends_and_leaves_a_child_with_its_output_has_ended() -> None:
    processes = [shell("(setsid sleep 60 &) ; echo last; exit 3"), shell("sleep 0.2; echo later")]
    heard = list(read_lines(processes, Deadline(20.0)))
    assert heard == [(0, "last"), (0, None), (1, "later"), (1, None)]
    assert processes[0].returncode == 3
    end_ranks(processes)


def test_one_that_has_ended_before_is_heard_to_its_end() -> None:
    process = shell("seq 9000")
    lines = read_lines([process], Deadline(10.0))
    first = next(lines)
    process.wait()
    assert [first, *lines] == [*((0, str(number)) for number in range(1, 9001)), (0, None)]
    end_ranks([process])


def test_a_deadline_that_comes_nearer() -> None:
    process = shell("echo one; sleep 60")
    deadline = Deadline(60.0)
    start = time.monotonic()
    lines = read_lines([process], deadline)
    assert next(lines) == (0, "one")
    deadline.shorten(0.2)
    deadline.shorten(60.0)
    with pytest.raises(TimeoutError):
        next(lines)
    assert time.monotonic() - start < 10.0
    end_ranks([process])
