import os
import socket
import subprocess
from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError, UsageError
from perfkit.store.layout import LOCK_FILE
from perfkit.store.lock import is_abandoned, lock_folder


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    second = pytest.raises(UsageError, match=rf"suite .*\(process {os.getpid()} on ")
    with lock_folder(folder), second, lock_folder(folder):
        pass
    with lock_folder(folder):  # and when the first has ended it may
        pass


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PerfkitError, match="not writable"), lock_folder(tmp_path / "file" / "suite"):
        pass


def test_a_writer_that_is_gone_has_left_its_folder(tmp_path: Path) -> None:
    assert not is_abandoned(tmp_path)  # nobody says that it wrote
    with lock_folder(tmp_path):
        assert not is_abandoned(tmp_path)
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / LOCK_FILE).write_text(f"process {gone.pid} on {socket.gethostname()}")
    assert is_abandoned(tmp_path)
    (tmp_path / LOCK_FILE).write_text(f"process {gone.pid} on another.machine")
    assert not is_abandoned(tmp_path)
