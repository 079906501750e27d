"""Reads the plain data of a snapshot from a pickle or JSON."""

from typing import Any, TypedDict

import msgspec

from perfkit.core.errors import RunFormatError
from perfkit.core.files import JSON_ERRORS
from perfkit.core.text_blocks import ReadLimits, TextBlocks
from perfkit.trace.readers.kineto.kineto import pause_gc
from perfkit.trace.readers.plain_pickle import load_plain_pickle
from perfkit.trace.readers.trace_sources import open_source

_PICKLE = b"\x80"


class _SnapshotBlock(TypedDict, total=False):
    address: int
    size: int
    requested_size: int
    state: str
    frames: msgspec.Raw
    history: list[Any]


class _SnapshotSegment(TypedDict, total=False):
    device: int
    address: int
    total_size: int
    stream: int
    segment_pool_id: tuple[int, int]
    is_expandable: bool
    blocks: list[_SnapshotBlock]


class _SnapshotEntry(TypedDict, total=False):
    action: str
    addr: int
    size: int
    stream: int
    time_us: int
    frames: msgspec.Raw
    device_free: int
    pool_id: tuple[int, int]
    compile_context: str | None
    user_metadata: str | None


class _SnapshotFile(TypedDict, total=False):
    segments: list[_SnapshotSegment]
    device_traces: list[list[_SnapshotEntry]]
    external_annotations: list[dict[str, Any]]
    allocator_settings: dict[str, Any]
    stacks: list[list[Any]]


def load_snapshot(label: str) -> object:
    """A snapshot as dictionaries and lists; `RunFormatError` if it is neither a pickle of plain data nor JSON.

    In JSON equal lists of frames become one list, as they are in pickles. A number in the place of frames is an index
    into a list `stacks` beside `segments`, so that a writer need not repeat them.
    """
    file, file_bytes = open_source(label)
    with file:
        text = TextBlocks(file, label, file_bytes, ReadLimits())
        blocks = iter(text)
        first = next(blocks, b"")
        if first.startswith(_PICKLE) or first.lstrip()[:1] not in (b"{", b"["):
            del blocks
            return load_plain_pickle(label)
        data = b"".join((first, *blocks))
    if text.damage:
        raise RunFormatError(f"{label}: {text.damage}; copy or record it again")
    kind: Any = list[_SnapshotSegment] if first.lstrip().startswith(b"[") else _SnapshotFile
    try:
        with pause_gc():
            snapshot = msgspec.json.decode(data, type=kind)
            _share_stacks(snapshot)
    except (*JSON_ERRORS, IndexError) as error:
        raise RunFormatError(f"{label}: not a JSON torch memory snapshot: {error}") from None
    return snapshot


def _share_stacks(snapshot: Any) -> None:
    """Replace the text of frames by their lists, one for each distinct text."""
    whole = snapshot if isinstance(snapshot, dict) else {"segments": snapshot}
    table = whole.get("stacks", [])
    decoded: dict[bytes, Any] = {}
    lists = [segment.get("blocks", []) for segment in whole.get("segments", [])]
    for entries in (*lists, *whole.get("device_traces", [])):
        for entry in entries:
            if "frames" in entry:
                text = bytes(entry["frames"])
                if text not in decoded:
                    frames = msgspec.json.decode(text)
                    decoded[text] = table[frames] if isinstance(frames, int) else frames
                entry["frames"] = decoded[text]
