"""Exports reports of Nsight Systems (`.nsys-rep`) with the `nsys` of this machine."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from perfkit.core.errors import RunFormatError

SUFFIX = ".nsys-rep"
_LAST_LINES = 3


def is_report(source: str | Path) -> bool:
    """True if a file is named like a report of Nsight Systems."""
    return str(source).endswith(SUFFIX)


def export_report(source: str | Path) -> bytes:
    """Export a report to SQLite; returns the database. `RunFormatError` without `nsys`, or if it fails."""
    nsys = shutil.which("nsys")
    if nsys is None:
        raise RunFormatError(
            f"{source}: a report of Nsight Systems, and `nsys` is not on the PATH to export it: "
            f"run `nsys export --type sqlite {Path(source).name}` where it is, and analyze the .sqlite file"
        )
    with tempfile.TemporaryDirectory(prefix="perfkit-nsys-") as folder:
        path = Path(folder) / "export.sqlite"
        command = [nsys, "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(path)]
        done = subprocess.run(
            [*command, str(Path(source).absolute())], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode or not path.is_file():
            told = " ".join((done.stderr or done.stdout).split("\n")[-_LAST_LINES:]).strip()
            raise RunFormatError(f"{source}: `nsys export` ended with {done.returncode}: {told or 'no output'}")
        return path.read_bytes()
