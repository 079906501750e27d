import os
import time
from pathlib import Path

import psutil
import pytest

from perfkit.core.errors import RunFormatError
from perfkit.store.live import LiveEvent, LiveStart, LiveWindow
from perfkit.store.live_tail import SILENT_S, read_log_end, read_since
from tests.fixtures.view_folder import append, silent, start, windows

END = LiveEvent(time_s=2.0, step=100, kind="end", text="done")


def test_lines_are_read_from_where_the_last_look_ended(tmp_path: Path) -> None:
    log = append(tmp_path, [start(), *windows(2)])
    first = read_since(log, 0)
    assert [type(line) for line in first.lines] == [LiveStart, LiveWindow, LiveWindow]
    assert (first.since, first.next, first.more) == (0, log.stat().st_size, False)
    assert read_since(log, first.next).lines == ()
    append(tmp_path, [END])
    assert read_since(log, first.next).lines == (END,)


def test_a_line_that_is_being_written_waits_for_its_end(tmp_path: Path) -> None:
    log = append(tmp_path, [start()])
    whole = log.stat().st_size
    with log.open("ab") as file:
        file.write(b'{"type":"event","time_s":2.0,"step":100,"kind":"end"')
    assert read_since(log, 0).next == whole
    with log.open("ab") as file:
        file.write(b',"text":"done"}\n')
    assert read_since(log, whole).lines == (END,)


def test_a_long_log_is_read_in_pieces(tmp_path: Path) -> None:
    written = windows(50)
    log = append(tmp_path, written)
    found, since = [], 0
    for _ in range(100):
        chunk = read_since(log, since, most_bytes=1000)
        found += chunk.lines
        since = chunk.next
        if not chunk.more:
            break
    assert found == written


def test_another_log_in_its_place_is_read_from_the_beginning(tmp_path: Path) -> None:
    log = append(tmp_path, [start(), *windows(5)])
    before = read_since(log, 0).next
    log.unlink()
    append(tmp_path, [start()])
    again = read_since(log, before)
    assert (again.since, len(again.lines)) == (0, 1)


def test_a_line_that_is_not_ours_is_named(tmp_path: Path) -> None:
    log = append(tmp_path, [start()])
    log.write_bytes(log.read_bytes() + b'{"type":"window"}\n')
    with pytest.raises(RunFormatError, match=r"live\.jsonl, .*\b0: .*time_s"):
        read_since(log, 0)
    log.write_bytes(b"x" * 5000)
    with pytest.raises(RunFormatError, match="1,000 bytes"):
        read_since(log, 0, most_bytes=1000)


def test_the_end_of_a_log_of_any_length(tmp_path: Path) -> None:
    written = windows(2000)
    log = append(tmp_path, [start(pid=1), *written])
    assert log.stat().st_size > 1 << 17
    end = read_log_end(log)
    assert (end.start.pid, end.window, end.end) == (1, written[-1], None)
    append(tmp_path, [END])
    assert read_log_end(log).end == END
    append(tmp_path, [start(pid=2)])
    again = read_log_end(log)
    assert (again.start.pid, again.end) == (2, None)


def test_an_empty_log_and_one_cut_off_in_its_first_line(tmp_path: Path) -> None:
    log = append(tmp_path, [])
    assert read_log_end(log).start is None
    log.write_bytes(b'{"type":"sta')
    assert read_log_end(log).start is None


def test_a_job_runs_while_its_log_grows_or_its_process_is_alive(tmp_path: Path) -> None:
    log = append(tmp_path / "far", [start()])
    assert read_log_end(log).is_running()
    silent(log, SILENT_S + 1)
    assert not read_log_end(log).is_running()

    me = psutil.Process()
    mine = append(tmp_path / "here", [start(pid=os.getpid(), hostname=os.uname().nodename, time_s=time.time())])
    silent(mine, 3600)
    assert read_log_end(mine).is_running()
    append(tmp_path / "here", [END])
    assert not read_log_end(mine).is_running()

    # The same number, of a process that began long after the log.
    older = start(pid=os.getpid(), hostname=os.uname().nodename, time_s=me.create_time() - 1000)
    reused = append(tmp_path / "reused", [older])
    silent(reused, 3600)
    assert not read_log_end(reused).is_running()
