"""SIGTERM ends a rank by SIGTERM, once it has told where it is; what it forked ends at once."""

import os
import signal
import time
from pathlib import Path

import pytest

from perfkit.measure.rank import termination
from perfkit.measure.rank.termination import report_on_termination


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_rank_tells_and_ends_by_the_signal_and_so_does_its_fork(tmp_path: Path, monkeypatch, capfd, ranks) -> None:
    monkeypatch.setattr(termination, "save_flight_record", lambda folder: (folder / "told").touch())
    monkeypatch.setattr(termination, "OTHERS_S", 0.0)
    read, write = os.pipe()
    rank = os.fork()
    if rank == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as a process begins, whatever tests before have put there
            report_on_termination(tmp_path, ranks=ranks)
            forked = os.fork()
            if forked:
                os.kill(forked, signal.SIGTERM)
                _, status = os.waitpid(forked, 0)
                os.write(write, bytes((os.WTERMSIG(status),)))
            time.sleep(60)
        finally:
            os._exit(1)
    assert os.read(read, 1) == bytes((signal.SIGTERM,))
    assert not (tmp_path / "told").exists()
    os.kill(rank, signal.SIGTERM)
    _, status = os.waitpid(rank, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert (tmp_path / "told").exists() == (ranks > 1)
    stacks = capfd.readouterr().err
    assert "test_termination.py" in stacks
    assert stacks.lower().count("thread 0x") == ranks  # of the fork nothing
