"""Finds traces of graph captures next to the traces of replays, by the file names of vLLM, SGLang and xDiT."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from perfkit.trace.readers.event_table.trace_metadata import parse_rank_in_name

# The folders that vLLM and SGLang write captures to, and what they, xDiT and SGLang's export call the files.
_FOLDERS = ("capture_traces", "graph_capture_profile")
_FILE = re.compile(r"(graph_capture|cuda_graph_capture|capture_trace|capture_rank|bs_\d+_rank).*", re.IGNORECASE)
_TENSOR_PARALLEL = re.compile(r"TP-(\d{1,9})(?!\d)", re.IGNORECASE)


def is_capture_file(path: Path) -> bool:
    """True if a file is a capture trace by its name or its folder's."""
    return path.parent.name in _FOLDERS or _FILE.fullmatch(path.name) is not None


def drop_captures(paths: Sequence[Path]) -> list[Path]:
    """Drop capture traces, unless all are."""
    return [path for path in paths if not is_capture_file(path)] or list(paths)


def list_capture_folders(source: str) -> list[Path]:
    """The folders that may contain captures of a trace: its own, and those that servers create in it."""
    folder = Path(source).parent
    return [folder, *(inner for name in _FOLDERS if (inner := folder / name).is_dir())]


def select_rank_captures(sources: Sequence[str], rank: int | None) -> tuple[str, ...]:
    """The captures of a rank, else those of the lowest rank: ranks of a server capture equally."""
    ranks = {source: _parse_rank(source) for source in sources}
    known = {its for its in ranks.values() if its is not None}
    if not known:
        return tuple(sources)
    mine = rank if rank in known else min(known)
    return tuple(source for source, its in ranks.items() if its == mine)


def _parse_rank(source: str) -> int | None:
    name = PurePosixPath(source.replace("\\", "/")).name
    match = _TENSOR_PARALLEL.search(name)
    return int(match[1]) if match is not None else parse_rank_in_name(name)
