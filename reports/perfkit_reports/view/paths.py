"""From the path of a request to a file that may be read: inside the folder, part of a run, of a known kind."""

import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from perfkit.store.listing import KINDS
from perfkit.store.summary import REPORT_FILE

_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")

# (end of a file's name, media type, whether a browser shows it; else it is saved).
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
    """The steps of a request's path, decoded once; None for one that no page of ours links to.

    Refused are what is not valid UTF-8, control characters, backslashes, empty steps, `.`, `..` and hidden names,
    before and after decoding; what is still encoded after that is part of a name.
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
    """The file or folder that `steps` lead to, with links resolved; None where it is outside or not there."""
    root = folder.resolve()
    try:
        found = root.joinpath(*steps).resolve(strict=True)
    except (OSError, RuntimeError):  # not there, a name that is too long, links in a circle
        return None
    return found if found == root or root in found.parents else None


def find_run_file(folder: Path, steps: tuple[str, ...]) -> tuple[Path, str, bool] | None:
    """(file, media type, shown) of a file of a run that may be served, else None.

    A folder may hold more than runs: only what lies in a suite's or a report's own folder is served.
    """
    found = resolve_inside(folder, steps)
    if found is None or not found.is_file():
        return None
    if found.name == REPORT_FILE:
        kind: tuple[str, bool] | None = ("text/html; charset=utf-8", True)
    else:
        kind = next(((media, shown) for end, media, shown in FILES if found.name.endswith(end)), None)
    if kind is None:
        return None
    root = folder.resolve()
    above = [parent for parent in found.parents if parent == root or root in parent.parents]
    if not any((parent / marker).is_file() for parent in above for marker in KINDS):
        return None
    return found, *kind
