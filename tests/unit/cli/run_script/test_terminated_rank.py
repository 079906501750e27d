"""A rank under `perfkit run` that is terminated leaves its stacks, its flight record and a line, and ends by it."""

import os
import signal
import time
from pathlib import Path

import pytest

from perfkit.flight.record_file import write_flight_record
from perfkit.measure.rank import flight_dump, termination
from perfkit_cli.run_script.terminated_rank import report_on_termination
from tests.fixtures.flight_dumps import dump, entry


def hang(ready: int) -> None:
    os.write(ready, b"1")
    time.sleep(60)


def terminate_rank(folder: Path, before: signal.Handlers = signal.SIG_DFL) -> int:
    """The signal that a fork ends by: one that hangs as rank 3 with this handler of the program's."""
    heard, ready = os.pipe()
    rank = os.fork()
    if rank == 0:
        try:
            signal.signal(signal.SIGTERM, before)
            report_on_termination(3, lambda: folder)
            forked = os.fork()
            if forked == 0:
                time.sleep(60)
            os.kill(forked, signal.SIGTERM if before is signal.SIG_DFL else signal.SIGKILL)
            os.waitpid(forked, 0)
            hang(ready)
        finally:
            os._exit(1)
    assert os.read(heard, 1)
    os.kill(rank, signal.SIGTERM if before is signal.SIG_DFL else signal.SIGKILL)
    _, status = os.waitpid(rank, 0)
    os.close(heard)
    os.close(ready)
    return os.WTERMSIG(status)


@pytest.fixture(autouse=True)
def _recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = dump(entry(1), entry(2, "broadcast", ended=False))
    monkeypatch.setattr(
        flight_dump,
        "save_flight_record",
        lambda folder: write_flight_record(folder / "flight_recorder.json.gz", waits),
    )
    monkeypatch.setattr(termination, "OTHERS_S", 0.0)


def test_one_of_several_ranks_leaves_where_it_was(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert terminate_rank(tmp_path) == signal.SIGTERM
    folder = tmp_path / "ended" / "rank3"
    assert "in hang" in (folder / "stacks.txt").read_text()
    assert (folder / "flight_recorder.json.gz").is_file()
    [line] = capfd.readouterr().err.splitlines()
    assert ("rank 3" in line, "waiting in broadcast 2 of default_pg" in line, str(folder) in line) == (True,) * 3


def test_a_single_rank_and_a_program_with_a_handler_of_its_own_are_left_alone(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert terminate_rank(tmp_path) == signal.SIGTERM
    monkeypatch.setenv("WORLD_SIZE", "4")
    terminate_rank(tmp_path, signal.SIG_IGN)
    assert not any(tmp_path.iterdir())
