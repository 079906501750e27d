"""Traces of loops that are driven, written by hand, or over before all steps are through."""

import errno
import gzip
import json
import os
import re
from pathlib import Path
from typing import IO

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from perfkit.instruments import trace_recording
from perfkit.instruments.profiler_backend import MONITOR, ProfilerBackend
from perfkit.instruments.range_marks import mark_step
from perfkit.instruments.recording import EndNow, drive_recording
from perfkit.instruments.trace_recording import CUT_STEP, LEAD_STEP, MonitorError, record_trace

CPU = torch.device("cpu")


def names(path: Path) -> list[str]:
    with gzip.open(path) as file:
        return [event["name"] for event in json.load(file)["traceEvents"]]


def steps(path: Path) -> list[int]:
    """The numbers of the steps that a trace has the ranges of."""
    return sorted(int(found[1]) for name in names(path) if (found := re.fullmatch(r"perfkit::step#(\d+)", name)))


def step(index: int) -> None:
    with mark_step(index):
        torch.ones(5).square().sum()


def off() -> bool:
    return not torch._C._autograd._profiler_enabled()


def test_a_driven_loop(tmp_path: Path) -> None:
    path = tmp_path / "rank0" / "trace.json.gz"
    drive_recording(record_trace(3, path, device=CPU), step, 5)
    assert steps(path) == [5, 6, 7]
    assert off()
    assert list(path.parent.iterdir()) == [path]


def test_a_loop_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    recording = record_trace(2, path, device=CPU)
    for index in range(4):
        if index < 3:
            assert next(recording, "ended") == (None if index < 2 else "ended")
        step(index)
    assert steps(path) == [0, 1]
    assert off()


def test_a_disk_that_fills_is_an_error_and_has_its_room_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kineto says nothing, leaves what it has written under its own name, and keeps that open."""
    opened: list[IO[bytes]] = []

    def write_some(_: object, path: str) -> None:
        file = Path(f"{path}.tmp").open("wb")  # noqa: SIM115
        file.write(b"{" * 1000)
        file.flush()
        opened.append(file)

    monkeypatch.setattr(trace_recording.profile, "export_chrome_trace", write_some)
    path = tmp_path / "rank0" / "trace.json.gz"
    with pytest.raises(OSError, match="disk") as error:
        drive_recording(record_trace(1, path, device=CPU), step, 0)
    assert error.value.errno == errno.ENOSPC
    assert list(path.parent.iterdir()) == []
    with opened[0] as file:
        assert os.fstat(file.fileno()).st_size == 0


def test_a_link_in_a_shared_folder_is_not_written_through(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "trace.json.gz"
    other.write_text("mine")
    for name in (path.name, f".{os.getpid()}.{path.name}", f".{os.getpid()}.trace.json"):
        (tmp_path / name).symlink_to(other)
    drive_recording(record_trace(1, path, device=CPU), step, 0)
    assert other.read_text() == "mine"
    assert steps(path) == [0]
    assert not path.is_symlink()


@pytest.mark.parametrize("seen", [1, 2, 3])
def test_a_loop_that_ends_earlier_leaves_its_steps(tmp_path: Path, seen: int) -> None:
    path = tmp_path / "trace.json.gz"
    recording = record_trace(3, path, device=CPU)
    for index in range(seen):
        next(recording)
        step(index)
    recording.close()
    assert off()
    assert path.exists() == (seen > 1), "the last step may not be whole: nothing says that it is over"
    if seen > 1:
        assert steps(path) == list(range(seen - 1))
    assert len(list(tmp_path.iterdir())) == (seen > 1)
    drive_recording(record_trace(1, path, device=CPU), step, 8)
    assert steps(path) == [8]


def test_the_step_in_which_ranks_wait_for_each_others_profilers_is_none(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    drive_recording(record_trace(2, path, device=CPU, lead=1), step, 5)
    assert steps(path) == [6, 7]
    assert names(path).count(LEAD_STEP) == 1


@pytest.mark.parametrize(("seen", "expected"), [(2, [0]), (3, [1])])
def test_a_lead_counts_where_no_other_step_was_whole(tmp_path: Path, seen: int, expected: list[int]) -> None:
    path = tmp_path / "trace.json.gz"
    recording = record_trace(3, path, device=CPU, lead=1)
    for index in range(seen):
        next(recording)
        step(index)
    recording.close()
    assert steps(path) == expected


def test_closed_before_it_began(tmp_path: Path) -> None:
    recording = record_trace(3, tmp_path / "trace.json.gz", device=CPU)
    recording.close()
    assert off()
    assert list(tmp_path.iterdir()) == []


def test_a_mark_that_is_open_when_the_loop_ends_is_no_step(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    recording = record_trace(3, path, device=CPU)
    next(recording)
    step(0)
    next(recording)
    with mark_step(1):
        recording.close()
    assert steps(path) == [0]
    assert names(path).count(CUT_STEP) == 1


def test_boundaries_within_an_optimizers_hook(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    recording = record_trace(2, path, device=CPU)
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter])
    marks = []

    def boundary(*_: object) -> None:
        if marks:
            marks.pop().__exit__(None, None, None)
        next(recording, None)
        marks.append(mark_step(optimizer.param_groups[0]["number"]))
        marks[-1].__enter__()

    handle = register_optimizer_step_post_hook(boundary)
    for number in range(4):
        optimizer.param_groups[0]["number"] = number
        parameter.square().sum().backward()
        optimizer.step()
    handle.remove()
    marks.pop().__exit__(None, None, None)
    assert steps(path) == [0, 1]
    assert off()


def test_a_folder_that_cannot_be_written_ends_the_profiler(tmp_path: Path) -> None:
    (tmp_path / "rank0").write_text("a file")
    with pytest.raises(OSError, match="rank0"):
        drive_recording(record_trace(1, tmp_path / "rank0" / "trace.json.gz", device=CPU), step, 0)
    assert off()


def test_marks_are_renamed_wherever_a_part_of_the_file_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_recording, "_PART_BYTES", 7)
    path = tmp_path / "trace.json.gz"
    drive_recording(record_trace(2, path, device=CPU, lead=1), step, 5)
    assert steps(path) == [6, 7]
    assert names(path).count(LEAD_STEP) == 1


def test_a_trace_that_is_told_to_end_has_the_steps_until_then(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    recording = record_trace(5, path, device=CPU)
    for index in range(2):
        next(recording)
        step(index)
    with pytest.raises(StopIteration):
        recording.throw(EndNow())
    assert steps(path) == [0, 1]
    assert off()


@pytest.fixture
def monitored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A torch that records with CUPTI's monitor, which packs every trace; what it failed of."""
    failed: list[str] = []
    monkeypatch.setattr(trace_recording, "choose_backend", lambda device, monitored: ProfilerBackend(MONITOR))
    monkeypatch.setattr(trace_recording, "make_config", lambda backend, options: None)
    monkeypatch.setattr(trace_recording, "mark_failed", failed.append)
    export = torch.profiler.profile.export_chrome_trace
    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", lambda self, path: export(self, path + ".gz"))
    return failed


def test_a_trace_of_the_monitor_is_unpacked(tmp_path: Path, monitored: list[str]) -> None:
    path = tmp_path / "trace.json.gz"
    recorded = drive_recording(record_trace(2, path, device=CPU, lead=1), step, 0)
    assert (recorded.backend, recorded.kernels) == (ProfilerBackend(MONITOR), None)
    assert steps(path) == [1, 2]
    assert list(tmp_path.iterdir()) == [path]
    assert monitored == []


def test_a_monitor_that_writes_nothing_is_not_used_again(
    tmp_path: Path, monitored: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", lambda self, path: None)
    with pytest.raises(MonitorError):
        drive_recording(record_trace(2, tmp_path / "trace.json.gz", device=CPU), step, 0)
    assert len(monitored) == 1
    assert list(tmp_path.iterdir()) == []
    assert off()
