"""How long files take that tensors are offloaded to, with a clock of its own."""

import tempfile
from itertools import count
from pathlib import Path

import pytest

from perfkit.core.errors import UnavailableError
from perfkit.plan.target import disk


def test_what_was_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(disk, "_SIZES", (4096, 65536))
    ticks = count()
    monkeypatch.setattr(disk, "perf_counter", lambda: float(next(ticks)))
    assert disk.load_disk() is None
    measured = disk.measure_disk()
    assert measured is not None
    assert measured == disk.load_disk()
    assert measured.mount == disk.find_mount(tmp_path)
    # A second passes while a round's pages are written, one while they are read, and one while they are deleted.
    assert measured.write.seconds(4096).value == pytest.approx(2 / disk._PAGES)
    assert measured.read.seconds(65536).value == pytest.approx(1 / disk._PAGES)
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_in_memory_are_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: str, counters: dict[str, float]) -> None:
        raise UnavailableError("a tmpfs")

    monkeypatch.setattr(disk, "make_disk_store", refused)
    assert disk.measure_disk() is None
    assert disk.load_disk() is None


def test_a_file_system_goes_by_where_it_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda path: path in (tmp_path, Path("/")))
    assert disk.find_mount(tmp_path / "a" / "b") == str(tmp_path)
    assert disk.find_mount(tmp_path.parent) == "/"
