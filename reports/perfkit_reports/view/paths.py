"""Resolves request paths to readable files: inside the folder, part of a run, of a known kind."""

import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from perfkit.store.report_kinds import find_kind
from perfkit.store.summary import REPORT_FILE

_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")

# (file name suffix, media type, shown by browsers; else downloaded)
FILES = (
    (".json", "application/json", True),
    (".png", "image/png", True),
    (".svg", "image/svg+xml", True),
    (".md", "text/plain; charset=utf-8", True),
    (".log", "text/plain; charset=utf-8", True),
    (".csv", "text/csv; charset=utf-8", False),
    (".jsonl", "application/x-ndjson", False),
    (".parquet", "application/vnd.apache.parquet", False),
    (".json.gz", "application/gzip", False),
)


def split_path(path: str) -> tuple[str, ...] | None:
    """The segments of a request path, decoded once; None for paths that no page links to.

    Refuses invalid UTF-8, control characters, backslashes, empty segments, `.`, `..` and hidden names, before and after
    decoding; remaining encoding is part of a name.
    """
    if not path.startswith("/"):
        return None
    try:
        decoded = unquote_to_bytes(path[1:]).decode("utf-8")
    except UnicodeDecodeError:
        return None
    if _CONTROL.search(decoded):
        return None
    steps = tuple(decoded.split("/")) if decoded else ()
    return None if any(not step or step.startswith(".") for step in steps) else steps


def resolve_inside(folder: Path, steps: tuple[str, ...]) -> Path | None:
    """The file or folder at `steps`, with links resolved; None if it is outside or missing."""
    root = folder.resolve()
    try:
        path = root.joinpath(*steps).resolve(strict=True)
    except (OSError, RuntimeError):  # missing, name too long, circular links
        return None
    return path if path == root or root in path.parents else None


def find_run_file(folder: Path, steps: tuple[str, ...]) -> tuple[Path, str, bool] | None:
    """(file, media type, shown) of a servable file of a run, else None.

    Only files in a suite's or a report's own folder are served.
    """
    file = resolve_inside(folder, steps)
    if file is None or not file.is_file():
        return None
    if file.name == REPORT_FILE:
        kind: tuple[str, bool] | None = ("text/html; charset=utf-8", True)
    else:
        kind = next(((media, is_shown) for end, media, is_shown in FILES if file.name.endswith(end)), None)
    if kind is None:
        return None
    root = folder.resolve()
    above = [parent for parent in file.parents if parent == root or root in parent.parents]
    if not any(map(find_kind, above)):
        return None
    return file, *kind
