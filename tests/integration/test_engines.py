import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.parallel import engines
from perfkit.analysis.parallel import worker_processes as engine_processes
from perfkit.core.errors import PerfkitError, UsageError
from tests.fixtures import engine_functions as functions


def test_every_item_has_its_result() -> None:
    found = dict(engines.run_parallel(functions.square, range(10), jobs=2))
    assert found == {number: number * number for number in range(10)}


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_item_that_fails_does_not_stop_the_others(jobs: int) -> None:
    found = dict(engines.run_parallel(functions.square_unless_odd, range(6), jobs=jobs))
    assert {number: result for number, result in found.items() if number % 2 == 0} == {0: 0, 2: 4, 4: 16}
    for number in (1, 3, 5):
        assert isinstance(found[number], PerfkitError)
        assert str(found[number]) == f"{number}: odd"


def test_a_process_that_is_killed_takes_only_its_item_with_it() -> None:
    found = dict(engines.run_parallel(functions.die_at_three, range(6), jobs=2))
    assert {number: found[number] for number in (0, 1, 2, 4, 5)} == {number: number for number in (0, 1, 2, 4, 5)}
    assert isinstance(found[3], PerfkitError)
    assert str(found[3]).startswith("3: ")
    assert "--jobs" in str(found[3])


def test_a_process_that_ends_is_told_with_its_exit_code() -> None:
    found = dict(engines.run_parallel(functions.exit_at_three, range(6), jobs=2))
    assert isinstance(found[3], PerfkitError)
    assert "exit code 7" in str(found[3])
    assert found[5] == 5


def test_a_single_item_stays_in_this_process() -> None:
    assert dict(engines.run_parallel(functions.process_of, [1], jobs=4)) == {1: os.getpid()}


def test_several_items_go_to_as_many_processes_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = set(dict(engines.run_parallel(functions.process_of, range(8), jobs=2)).values())
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2


class _Dependent:
    """Two chains of items, of which each is ready when the one before has its result."""

    def __init__(self) -> None:
        self.ready = [10, 20]

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if not self.ready:
            raise StopIteration
        return self.ready.pop(0)


def test_items_that_depend_on_results_are_drawn_after_them() -> None:
    items, found = _Dependent(), {}
    for item, result in engine_processes.run_in_processes(functions.square, items, jobs=2):
        found[item] = result
        if item % 10 < (1 if item < 20 else 4):  # one process has nothing to do while the other goes on
            items.ready.append(item + 1)
    assert found == {number: number**2 for number in (10, 11, *range(20, 25))}


def test_processes_are_replaced_after_some_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_processes, "_ITEMS_PER_PROCESS", 1)
    monkeypatch.setattr(engine_processes, "_KEPT_BYTES", 0)
    assert len(set(dict(engines.run_parallel(functions.process_of, range(4), jobs=2)).values())) == 4


def test_processes_of_small_items_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_processes, "_ITEMS_PER_PROCESS", 1)
    assert len(set(dict(engines.run_parallel(functions.process_of, range(6), jobs=2)).values())) <= 2


def test_no_items_no_results() -> None:
    assert list(engines.run_parallel(functions.square, [])) == []


def test_an_unknown_engine_is_named() -> None:
    with pytest.raises(UsageError, match=r"'rey'.*'ray'"):
        engines.run_parallel(functions.square, [1], engine="rey")


def test_leaving_early_ends_the_processes(tmp_path: Path) -> None:
    results = engines.run_parallel(functions.sleep_long, [str(tmp_path)] * 3, jobs=2)
    started = _run_until(results, tmp_path, 2)
    assert all(not _is_alive(process) for process in started)


def _run_until(results: Iterator[Any], folder: Path, count: int) -> set[int]:
    """Interrupts the iteration, as Ctrl-C would, once `count` processes have begun; their ids."""

    def interrupt() -> None:
        while len(list(folder.iterdir())) < count:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        next(results)
    watcher.join()
    return {int(each.name) for each in folder.iterdir()}


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_parent_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    program = (
        "from perfkit.analysis.parallel import engines\nfrom tests.fixtures.engine_functions import sleep_long\n"
        f"if __name__ == '__main__':\n    list(engines.run_parallel(sleep_long, [{str(tmp_path)!r}] * 2, jobs=2))\n"
    )
    # Its children work on an item for ten minutes; they must end with it all the same once it is interrupted.
    parent = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    while len(list(tmp_path.iterdir())) < 2:
        assert parent.poll() is None
        time.sleep(0.05)
    parent.terminate()
    parent.wait()
    deadline = time.monotonic() + 30
    children = [int(each.name) for each in tmp_path.iterdir()]
    while any(map(_is_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_is_alive, children))
