"""An uncaught C++ exception ends a rank by SIGABRT, once it has told where it is."""

import ctypes
import faulthandler
import os
import signal
import sys
from pathlib import Path

import pytest

from perfkit.measure.rank import cpp_abort
from perfkit.measure.rank.cpp_abort import report_on_cpp_abort


def terminate() -> None:
    ctypes.CDLL("libstdc++.so.6")["_ZSt9terminatev"]()  # std::terminate(), which an uncaught exception calls


@pytest.mark.skipif(sys.platform != "linux", reason="GNU's C++ library")
@pytest.mark.parametrize("forks", [False, True])
def test_a_rank_tells_and_aborts_and_its_fork_only_aborts(tmp_path: Path, monkeypatch, capfd, forks: bool) -> None:
    monkeypatch.setattr(cpp_abort, "save_flight_record", lambda folder: (folder / "told").touch())
    rank = os.fork()
    if rank == 0:
        try:
            faulthandler.disable()  # pytest's own
            report_on_cpp_abort(tmp_path)
            if forks and (forked := os.fork()):
                _, status = os.waitpid(forked, 0)
                os.kill(os.getpid(), os.WTERMSIG(status))
            terminate()
        finally:
            os._exit(1)
    _, status = os.waitpid(rank, 0)
    assert os.WTERMSIG(status) == signal.SIGABRT
    assert (tmp_path / "told").exists() != forks
    assert ("test_cpp_abort.py" in capfd.readouterr().err) != forks
