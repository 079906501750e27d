"""Chooses the folders that reports are written to."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from perfkit.core.errors import RunFormatError, UsageError


def refuse_impossible(folder: Path) -> None:
    """Refuse a folder that cannot be created or written, before anything is measured."""
    absolute = folder.absolute()
    there = next(path for path in (absolute, *absolute.parents) if os.path.exists(path))  # noqa: PTH110, `Path.exists` may raise
    if there.is_dir():
        if not os.access(there, os.W_OK | os.X_OK):
            raise UsageError(f"{folder}: {there} is not writable; name another folder with --out")
    elif there != absolute:
        raise UsageError(f"{folder} cannot be written: {there} is a file; name another folder with --out")


def refuse_foreign(folder: Path, marker: str, command: str) -> None:
    """Allow only an earlier report of `command`, marked by the file `marker`, to be replaced.

    Refuses a folder with any other content, or one that cannot be written.
    """
    refuse_impossible(folder)
    if not folder.exists() or (folder / marker).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise UsageError(f"{folder} is not a report of `{command}`; name another folder with --out")


def choose_folder(sources: Sequence[str], out: Path | None, default: Path, marker: str, command: str) -> Path:
    """The folder for a report of `command` on the files `sources`: `out`, else `default` or the next `default-2`.

    An earlier report on the same files is replaced. A report on other files is not: `out` is then refused.
    """
    if out is not None:
        refuse_foreign(out, marker, command)
        other = _find_other_report(out, marker, sources)
        if other is not None:
            raise UsageError(f"{out} holds a report on {other}; name another folder with --out, or remove it")
        return out
    named = (default.with_name(f"{default.name}-{number}") for number in itertools.count(2))
    folder = next(
        candidate for candidate in (default, *itertools.islice(named, 998)) if _is_free(candidate, marker, sources)
    )
    refuse_foreign(folder, marker, command)
    return folder


def _is_free(folder: Path, marker: str, sources: Sequence[str]) -> bool:
    return _find_other_report(folder, marker, sources) is None


def _find_other_report(folder: Path, marker: str, sources: Sequence[str]) -> str | None:
    """Find the subject of a report on other files than `sources`; None if there is none."""
    from perfkit.core.files import read_json
    from perfkit.store.summary import SUMMARY_FILE, ReportSummary, compute_digest
    from perfkit.trace.readers.trace_sources import STANDARD_INPUT

    if not (folder / marker).is_file():
        return None
    try:
        summary = read_json(folder / SUMMARY_FILE, ReportSummary)
    except RunFormatError:
        return "unnamed files"
    # A pipe holds something else each time.
    piped = any(source == STANDARD_INPUT or Path(source).is_fifo() for source in sources)
    return None if summary.sources == compute_digest(sources) and not piped else summary.name
