import os
import tarfile
from pathlib import Path

import pytest

from benchmarks.gpu.archive import ARCHIVE, FILE_BYTES, MOST_BYTES, write_archive


@pytest.fixture
def results(tmp_path: Path) -> Path:
    home = tmp_path / "nvidia-h200"
    for name, size in {"steps.json": 10, "fixtures/trace.json.gz": 2000, "fixtures/history.json.gz": 1000}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(os.urandom(size))
    (home / "runs" / "steps").mkdir(parents=True)
    (home / "runs" / "steps" / "row.json").write_bytes(b"{}")
    return home


def test_tables_and_fixtures_are_packed_and_no_runs(results: Path, tmp_path: Path) -> None:
    kept = ("nvidia-h200/steps.json", "nvidia-h200/fixtures/history.json.gz", "nvidia-h200/fixtures/trace.json.gz")
    archive = write_archive(results, tmp_path / "out" / ARCHIVE)
    assert (archive.kept, archive.left_out) == (kept, ())
    with tarfile.open(tmp_path / "out" / ARCHIVE) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    for name in kept:
        assert (tmp_path / "unpacked" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_a_large_file_is_left_out_and_named(results: Path, tmp_path: Path) -> None:
    (results / "fixtures" / "trace.json.gz").write_bytes(bytes(FILE_BYTES + 1))
    archive = write_archive(results, tmp_path / ARCHIVE)
    assert archive.left_out == ("nvidia-h200/fixtures/trace.json.gz",)
    assert len(archive.kept) == 2


@pytest.mark.parametrize("size", [1, 1000, FILE_BYTES])
def test_an_archive_stays_below_its_limit(tmp_path: Path, size: int) -> None:
    """Of contents that no packing makes smaller."""
    home = tmp_path / "nvidia-h200"
    (home / "fixtures").mkdir(parents=True)
    for number in range(20):
        (home / "fixtures" / f"{number}.gz").write_bytes(os.urandom(size))
    most = MOST_BYTES if size == FILE_BYTES else 60_000
    archive = write_archive(home, tmp_path / ARCHIVE, most)
    assert archive.left_out if size > 1 else not archive.left_out
    assert archive.kept
    assert (tmp_path / ARCHIVE).stat().st_size <= most
