"""Finds and opens traces: files, folders of ranks, glob patterns and fsspec URLs."""

import glob
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, TypeVar, cast

import zstandard
from isal import igzip_lib

from perfkit.core.errors import RunFormatError, UsageError
from perfkit.core.text_blocks import GzipError
from perfkit.core.urls import is_url, open_file_system, translate_read_errors
from perfkit.store.layout import RECORD_FILE, SPEC_FILE, SUITE_FILE, TRACE_FILE
from perfkit.trace.readers.capture_files import drop_captures, is_capture_file, list_capture_folders
from perfkit.trace.readers.trace_formats import FORMATS, XPLANE

_JSON = (".json", ".json.gz", ".json.zst")
_BINARY = tuple(suffix for each in FORMATS for suffix in each.suffixes)
_FILES = ", ".join((*_JSON, *_BINARY))
_CONVERTED, _PERFETTO_COPY = ".trace.json", "perfetto_trace.json.gz"  # of an `.xplane.pb`
_PERHAPS = ("", ".gz", ".gzip", ".zst", ".trace", ".raw")
_SNIFF_BYTES = 1 << 18
_TRACE = re.compile(rb'"traceEvents"|"ph"\s*:\s*"\w"')
_MAGIC = re.compile(r"[*?\[]")

STANDARD_INPUT = "-"

P = TypeVar("P", bound=PurePath)

Named = str | Path | Iterable[str | Path]  # one file, folder, pattern or URL, or several


def expand_sources(named: Named) -> tuple[str, ...]:
    """Files and URLs that are named, those of a pattern in natural order (`rank2` before `rank10`), none twice.

    A folder stands for the traces in it, or, if it has none itself, for those in the folders below. What is named as a
    trace of captures of graphs is left out of folders and patterns that hold others.
    `UsageError` where a pattern names nothing.
    """
    sources: dict[str, None] = {}
    for pattern in [str(named)] if isinstance(named, str | Path) else map(str, named):
        for source in _expand_remote(pattern) if is_url(pattern) else _expand_local(pattern):
            sources[source] = None
    if not sources:
        raise UsageError("no trace given; name files, folders, patterns or URLs")
    return tuple(sources)


def find_captures(source: str) -> tuple[str, ...]:
    """Find traces of graph captures next to a trace, by name."""
    if source == STANDARD_INPUT or is_url(source):
        return ()
    files = [path for folder in list_capture_folders(source) for path in folder.iterdir() if is_capture_file(path)]
    paths = {str(path) for path in files if path != Path(source) and path.is_file() and is_trace_file(path)}
    return tuple(sorted(paths, key=make_natural_key))


def open_source(source: str | Path) -> tuple[BinaryIO, int]:
    """Open a binary file; returns it with its size in bytes, 0 where unknown. `RunFormatError` without a file."""
    text = str(source)
    if text == STANDARD_INPUT:
        return sys.stdin.buffer, 0
    if is_url(text):
        return _open_remote(text)
    path = Path(source)
    if path.is_dir():
        raise RunFormatError(f"{path}: is a folder, not a file; name a file in it")
    try:
        return path.open("rb"), path.stat().st_size
    except (OSError, ValueError) as error:
        raise RunFormatError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def is_pattern(name: str) -> bool:
    """True if the name is a pattern."""
    return bool(_MAGIC.search(name))


def derive_trace_name(source: str) -> str:
    """The name of a trace: its file's or URL's, without the usual suffixes."""
    path = source.partition("?")[0] if is_url(source) else source
    name = "stdin" if source == STANDARD_INPUT else PurePosixPath(path.replace("\\", "/")).name
    for end in (".gz", ".zst", ".json", ".pt.trace", *_BINARY):
        name = name.removesuffix(end)
    return name


def make_natural_key(text: str) -> list[tuple[int, int, str]]:
    """A key by which `rank2` comes before `rank10`."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text)]


def _expand_local(pattern: str) -> list[str]:
    if not pattern.strip():
        raise UsageError("empty trace name; name files, folders, patterns or URLs")
    path = Path(pattern).expanduser()
    if pattern == STANDARD_INPUT or (path.exists() and not path.is_dir()):  # pipes are no files
        return [str(path)]
    if path.is_dir():
        _refuse_suite(path)
        traces = _list_traces(path)
        if not traces:
            raise UsageError(f"{pattern}: no trace in this folder ({_FILES})")
    elif _MAGIC.search(pattern):
        matches = [Path(name) for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207 - keeps the user's form
        folders = [trace for match in matches if match.is_dir() for trace in _list_traces(match)]
        traces = folders + [match for match in matches if match.is_file() and is_trace_file(match)]
        if not traces:
            raise UsageError(f"{pattern}: no trace matches this pattern")
    else:
        raise UsageError(f"{pattern}: no such file or folder", id="usage.no_file")
    return sorted({str(trace) for trace in drop_converted(drop_captures(traces))}, key=make_natural_key)


def drop_converted(paths: Sequence[P]) -> list[P]:
    """Drop what JAX and TensorFlow convert from a recording beside it: JSON of a million events, and a copy of that."""
    recorded = {path.parent / path.name.removesuffix(XPLANE) for path in paths if path.name.endswith(XPLANE)}
    folders = {path.parent for path in recorded}
    return [
        path
        for path in paths
        if path.parent / path.name.partition(_CONVERTED)[0] not in recorded or path.name.endswith(XPLANE)
        if path.parent not in folders or path.name != _PERFETTO_COPY
    ]


def _list_traces(folder: Path) -> list[Path]:
    traces = [path for path in folder.iterdir() if path.is_file() and is_trace_file(path)]
    traces = traces if any(not is_capture_file(path) for path in traces) else []
    traces = traces or [path for path in folder.rglob("*") if path.is_file() and is_trace_file(path)]
    # What else a rank of a bench leaves (its record, its allocator's history) may be too long to be told by content.
    return [path for path in traces if path.name == TRACE_FILE or not (path.parent / RECORD_FILE).is_file()]


def _refuse_suite(folder: Path) -> None:
    """Refuse a suite: its variants are not ranks of a job."""
    if (folder / SUITE_FILE).is_file():
        raise UsageError(
            f"{folder} is a suite of `perfkit bench`, whose report `perfkit report {folder}` writes; "
            f"to analyze its traces, name the folder of a run, such as {folder / 'VARIANT' / '0'}"
        )


def is_trace_file(path: Path) -> bool:
    """True for a trace file, by name and content: complete JSON without events is not one."""
    if path.name.startswith("."):
        return False
    known = path.name.endswith(_JSON)
    if not known and path.suffix not in _PERHAPS and not path.name.endswith(_BINARY):
        return False
    try:
        with path.open("rb") as file:
            raw = file.read(_SNIFF_BYTES)
    except OSError:
        return known  # reading it will say what is wrong
    text, whole = _read_beginning(raw, path.stat().st_size <= _SNIFF_BYTES)
    if any(each.recognizes(text) for each in FORMATS):
        return True
    return bool(_TRACE.search(text.replace(b"\0", b""))) or (known and not (whole and text))


def _read_beginning(raw: bytes, whole: bool) -> tuple[bytes, bool]:
    """Read the first text of a file that starts with `raw`; returns also whether it is all."""
    try:
        if raw.startswith(b"\x1f\x8b"):
            member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            return member.decompress(raw, _SNIFF_BYTES), whole and member.eof
        if raw.startswith(b"\x28\xb5\x2f\xfd"):
            text = zstandard.ZstdDecompressor().stream_reader(raw).read(_SNIFF_BYTES)
            return text, whole and len(text) < _SNIFF_BYTES
    except (GzipError, zstandard.ZstdError):
        return b"", False
    return raw, whole


def _expand_remote(url: str) -> list[str]:
    with translate_read_errors(url):
        system, path = open_file_system(url)
        if _MAGIC.search(path):
            matches = [str(name) for name in system.glob(path)]
        elif url.startswith("http") or system.isfile(path):
            return [url]
        else:
            matches = [str(name) for name in system.ls(path, detail=False)] if system.isdir(path) else []
            if not any(map(_has_trace_suffix, matches)) or any(map(_is_run_spec, matches)):
                below = [str(name) for name in system.find(path)]
                matches = [name for name in below if PurePosixPath(name).name == TRACE_FILE] or below
        kept = drop_converted([PurePosixPath(match) for match in matches if _has_trace_suffix(match)])
        traces = [match for match in matches if PurePosixPath(match) in kept]
    if not traces:
        raise UsageError(f"{url}: no trace there ({_FILES})")
    return sorted((str(system.unstrip_protocol(trace)) for trace in traces), key=make_natural_key)


def _is_run_spec(name: str) -> bool:
    """True for the spec of a run, whose folder's other files are named like traces."""
    return PurePosixPath(name).name == SPEC_FILE


def _has_trace_suffix(name: str) -> bool:
    return name.endswith((*_JSON, *_BINARY, ".gz", ".zst"))


def _open_remote(url: str) -> tuple[BinaryIO, int]:
    with translate_read_errors(url):
        system, path = open_file_system(url)
        file = system.open(path, "rb")
    return cast(BinaryIO, file), int(getattr(file, "size", 0) or 0)
