"""The log on disk: whole lines, cut ones, growth, disks that are full."""

import errno
import os
from pathlib import Path

import pytest

from perfkit.attach.live import live_log as log_module
from perfkit.attach.live.live_log import LiveLog
from perfkit.core.errors import PerfkitError
from perfkit.store.live import LiveEvent, read_live

EVENT = LiveEvent(time_s=1.0, step=1, kind="end", text="done")


def test_lines_are_readable_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "rank0" / "live.jsonl"
    log = LiveLog(path, 1000)
    log.write(EVENT)
    assert list(read_live(path)) == [EVENT]
    log.write(EVENT)
    assert list(read_live(path)) == [EVENT, EVENT]
    log.close()
    log.close()


def test_a_second_run_appends_and_takes_a_cut_line_off(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    first = LiveLog(path, 1000)
    first.write(EVENT)
    first.close()
    with path.open("ab") as file:
        file.write(b'{"type":"eve')
    second = LiveLog(path, 1000)
    second.write(EVENT)
    second.close()
    assert list(read_live(path)) == [EVENT, EVENT]


def test_lines_become_rarer_as_the_log_grows(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    log = LiveLog(path, 100)
    stretches = []
    while path.stat().st_size < 300:
        stretches.append(log.stretch)
        log.write(EVENT)
    assert sorted(set(stretches)) == [1, 2, 4]
    assert stretches == sorted(stretches)
    log.close()
    again = LiveLog(path, 100)
    assert again.stretch == 8  # counted from what is there
    again.close()


def test_an_unwritable_folder_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "rank0").write_text("a file where a folder should be")
    with pytest.raises(PerfkitError, match=r"live\.jsonl"):
        LiveLog(tmp_path / "rank0" / "live.jsonl", 1000)


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LiveLog(tmp_path / "live.jsonl", 1000)

    def full(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(log_module.os, "write", full)
        with pytest.raises(PerfkitError, match="No space left"):
            log.write(EVENT)
    with monkeypatch.context() as patch:
        write = os.write
        patch.setattr(log_module.os, "write", lambda file, data: write(file, data[:5]))
        with pytest.raises(PerfkitError, match=r"live\.jsonl"):
            log.write(EVENT)
    log.close()
    assert list(read_live(tmp_path / "live.jsonl")) == []
