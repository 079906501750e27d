"""Reads torch.profiler's memory timelines (`export_memory_timeline`), as raw points or sums by category.

The formats are those of torch/profiler/_memory_profiler.py (`MemoryProfileTimeline`).
"""

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from perfkit.core.allocations import (
    ACTIVATION,
    GRADIENT,
    INPUT,
    NONE,
    OPTIMIZER_STATE,
    PARAMETER,
    TEMPORARY,
    UNKNOWN,
    InitialBlock,
    TextNumbers,
    build_allocations,
)
from perfkit.core.errors import RunFormatError
from perfkit.core.files import JSON_ERRORS
from perfkit.core.note import make_note
from perfkit.core.text_blocks import ReadLimits, TextBlocks
from perfkit.trace.memory.memory_file import MemoryFile
from perfkit.trace.readers.trace_sources import open_source

RAW = "torch.profiler memory timeline (raw points)"
SUMS = "torch.profiler memory timeline (sums by category)"
DEVICE = "device not named in the file"
_SOURCE = "torch.profiler's categories of tensors over time, without addresses"

# In the order of torch's categories. Autograd's details are what nodes of backward put out that is no gradient of a
# parameter: gradients of activations on their way, gone when backward is.
_CATEGORIES = (PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, TEMPORARY, UNKNOWN)
_PREEXISTING, _CREATE, _INCREMENT_VERSION, _DESTROY = 1, 2, 3, 4


class _TimelinePoint(NamedTuple):
    time_ns: int
    action: int
    bytes: int
    category: int


class _CategorySums(NamedTuple):
    times_us: list[int]
    sizes: list[list[int]]  # the first of each row is always 0


def read_raw_timeline(path: str | Path) -> MemoryFile:
    """Read `.raw.json.gz` or `.json(.gz)` of `torch.profiler.profile.export_memory_timeline`, at a path or URL.

    Its classification is taken over as told. `RunFormatError` for what is no such file, does not balance, or is the
    picture that it writes for `.html`.
    """
    label = str(path)
    file, file_bytes = open_source(label)
    with file:
        text = TextBlocks(file, label, file_bytes, ReadLimits())
        data = b"".join(text)
    if text.damage:
        raise RunFormatError(f"{label}: {text.damage}; copy or record it again")
    return parse_timeline(data, label)


def parse_timeline(data: bytes, label: str) -> MemoryFile:
    """`read_raw_timeline` of a file's text."""
    if data.lstrip()[:1] == b"<":
        raise RunFormatError(
            f"{label}: a web page; an HTML memory timeline contains no numbers: pass export_memory_timeline() a "
            "name that ends in .raw.json.gz"
        )
    try:
        decoded = msgspec.json.decode(data)
        if isinstance(decoded, list) and len(decoded) == 2 and _is_table(decoded[1]):
            return _build_from_sums(msgspec.convert(decoded, _CategorySums), label)
        return _build_from_points(msgspec.convert(decoded, list[_TimelinePoint]), label)
    except (*JSON_ERRORS, OverflowError) as error:
        raise RunFormatError(f"{label}: not a memory timeline of torch.profiler: {error}") from None


def _is_table(rows: object) -> bool:
    return isinstance(rows, list) and all(isinstance(row, list) for row in rows)


def _build_from_points(points: list[_TimelinePoint], label: str) -> MemoryFile:
    """Points have no addresses: which block a free ends is a guess among those of its size and category."""
    rows = np.array(points, np.int64).reshape(-1, 4)
    time_ns, action, size, category = rows.T
    if not len(rows) or (category < 0).any() or (category >= len(_CATEGORIES)).any():
        raise RunFormatError(f"{label}: not a memory timeline of torch.profiler: no points with known categories")
    names = TextNumbers()
    number = np.array([names.number(name) for name in _CATEGORIES])
    preexisting = action == _PREEXISTING
    known = tuple(
        InitialBlock(address=NONE, size_bytes=bytes_, category=_CATEGORIES[which], name="")
        for bytes_, which in zip(size[preexisting].tolist(), category[preexisting].tolist(), strict=True)
    )
    start = int(size[preexisting].sum())
    level = start + np.cumsum(np.where(preexisting, 0, size))
    if (level < 0).any():
        raise RunFormatError(
            f"{label}: does not balance: point {int(np.flatnonzero(level < 0)[0])} frees more than was allocated; "
            "it is damaged or truncated"
        )
    kept = ~preexisting & (size != 0)
    # A version that stays what it was comes as a removal and an addition, one after the other.
    same = (action[:-1] == _INCREMENT_VERSION) & (action[1:] == _INCREMENT_VERSION)
    same &= (size[:-1] == -size[1:]) & (size[:-1] < 0) & (number[category[:-1]] == number[category[1:]])
    kept[:-1] &= ~same
    kept[1:] &= ~same
    result = build_allocations(
        device=DEVICE,
        source=_SOURCE,
        names=names.list_texts(),
        time_ns=time_ns[kept],
        address=np.full(int(kept.sum()), NONE),
        size=size[kept],
        category=number[category[kept]],
        known=known,
    )
    note = "a memory timeline has no addresses, ops, steps or phases: a free ends a block of equal size and category"
    return MemoryFile(kind=RAW, allocations=(result,), notes=(make_note("memory.timeline_only", note),))


def _build_from_sums(sums: _CategorySums, label: str) -> MemoryFile:
    """Build blocks from sums by category: each growth is a block, and shrinking ends the latest first."""
    if len(sums.times_us) != len(sums.sizes) or any(len(row) != len(_CATEGORIES) + 1 for row in sums.sizes):
        raise RunFormatError(f"{label}: not a memory timeline of torch.profiler: rows of different lengths")
    rows = np.array(sums.sizes, np.int64).reshape(-1, len(_CATEGORIES) + 1)[:, 1:]
    if not len(rows) or (rows < 0).any():
        raise RunFormatError(f"{label}: does not balance: a category has a negative size; it is damaged or truncated")
    names = TextNumbers()
    number = [names.number(name) for name in _CATEGORIES]
    pieces = _GrowthPieces()
    changes = np.diff(rows, axis=0, prepend=0)
    for row, category in zip(*(indices.tolist() for indices in np.nonzero(changes)), strict=True):
        pieces.add_change(row, category, int(changes[row, category]))
    events = np.array(pieces.list_events(), np.int64).reshape(-1, 4)
    first = events[:, 0] == 0
    known = tuple(
        InitialBlock(address=address, size_bytes=bytes_, category=_CATEGORIES[category], name="")
        for _, address, bytes_, category in events[first].tolist()
    )
    row, address, size, category = events[~first].T
    result = build_allocations(
        device=DEVICE,
        source=_SOURCE,
        names=names.list_texts(),
        time_ns=np.array(sums.times_us, np.int64)[row] * 1000,
        address=address,
        size=size,
        category=np.array(number)[category],
        known=known,
    )
    note = "sums by category list no blocks: each allocation is the growth of a category between two points"
    return MemoryFile(kind=SUMS, allocations=(result,), notes=(make_note("memory.category_sums", note),))


class _GrowthPieces:
    """Growths of categories in pieces that are ended whole."""

    def __init__(self) -> None:
        self._made: list[tuple[int, int, int, int]] = []  # row, number of the piece, bytes, category
        self._open: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # row and bytes of what is left
        self._count = 0

    def add_change(self, row: int, category: int, by: int) -> None:
        if by > 0:
            self._open[category].append((row, by))
        while by < 0:
            begun, remaining = self._open[category].pop()
            ended = min(remaining, -by)
            if remaining > ended:
                self._open[category].append((begun, remaining - ended))
            self._add_piece(begun, category, ended, row)
            by += ended

    def _add_piece(self, begun: int, category: int, size: int, ended: int | None) -> None:
        self._made.append((begun, self._count, size, category))
        if ended is not None:
            self._made.append((ended, self._count, -size, category))
        self._count += 1

    def list_events(self) -> list[tuple[int, int, int, int]]:
        """The starts and ends of all pieces in row order, ends first within one."""
        for category, pieces in self._open.items():
            for begun, remaining in pieces:
                self._add_piece(begun, category, remaining, None)
        self._open.clear()
        return sorted(self._made, key=lambda event: (event[0], event[2] > 0))
