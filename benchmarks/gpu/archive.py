"""One tar of a device's results: small JSON and fixtures, of which a machine can hand back a few files only."""

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

ARCHIVE = "results.tar.gz"
MOST_BYTES = 16 * 2**20  # of the archive: unpacked, so that it holds packed as well
FILE_BYTES = 2**20  # of a file
FIXTURES = "fixtures"
# Room for what tar adds: a header of 512 bytes a file, its padding and the blocks at the end.
_OVERHEAD_BYTES = 1024
_END_BYTES = 2 * tarfile.RECORDSIZE


@dataclass(frozen=True)
class Archive:
    """Files of an archive, by their path in it, and those that are too large for it."""

    kept: tuple[str, ...]
    left_out: tuple[str, ...]


def write_archive(results: Path, path: Path, most_bytes: int = MOST_BYTES) -> Archive:
    """Pack `results` (OUT/DEVICE) as `DEVICE/...`: the JSON of its scripts first, then its fixtures, small ones first.

    A file above 1 MiB, or one for which there is no room, is left out. The archive is written under another name and
    renamed, so that a killed process leaves the one before.
    """
    kept, left_out = [], []
    room = most_bytes - _END_BYTES
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with tarfile.open(temporary, "w:gz") as archive:
        for file in _list_files(results):
            content = file.read_bytes()
            name = f"{results.name}/{file.relative_to(results)}"
            if len(content) > min(FILE_BYTES, room - _OVERHEAD_BYTES):
                left_out.append(name)
                continue
            room -= len(content) + _OVERHEAD_BYTES
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), int(file.stat().st_mtime)
            archive.addfile(entry, io.BytesIO(content))
            kept.append(name)
    temporary.replace(path)
    return Archive(tuple(kept), tuple(left_out))


def _list_files(results: Path) -> list[Path]:
    tables = sorted(results.glob("*.json"), key=_file_bytes)
    fixtures = sorted((file for file in (results / FIXTURES).rglob("*") if file.is_file()), key=_file_bytes)
    return [*tables, *fixtures]


def _file_bytes(file: Path) -> int:
    return file.stat().st_size
