"""Reads Kineto's JSON into columns, and that of other writers of Chrome's trace format."""

from contextlib import ExitStack

from perfkit.core.errors import RunFormatError
from perfkit.core.text_blocks import TextBlocks
from perfkit.trace.model import (
    Trace,
)
from perfkit.trace.readers.event_table.build_trace import build_trace
from perfkit.trace.readers.event_table.piece_columns import PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.event_table.trace_collector import (
    TraceCollector,
)
from perfkit.trace.readers.kineto.event_columns import ColumnBuilder
from perfkit.trace.readers.kineto.event_splitter import EventSplitter
from perfkit.trace.readers.kineto.kineto import AnyEvent, pause_gc
from perfkit.trace.readers.kineto.parallel_decoding import PieceDistributor, RefusedPieces
from perfkit.trace.readers.kineto.trace_metadata import read_trace_metadata
from perfkit.trace.trace_text import TraceText

_LONGEST_WITHOUT_EVENT = 256 << 20
_SHARED_FROM = 32 << 20  # bytes of JSON from which another process pays


def read_kineto(text: TraceText) -> Trace:
    """Read a trace in JSON: torch.profiler's, ROCm's, XPU's, Chrome's or XLA's, whole or damaged.

    `RunFormatError` says of any other text that it is no trace.
    """
    with pause_gc():
        collection = TraceCollector(TraceTables(text.limits.names), text.allocations)
        splitter = _read_blocks(text.blocks, collection, str(text.source), text.workers - 1, text.limits.names)
    metadata = read_trace_metadata(splitter.surroundings)
    return build_trace(text, collection, metadata, splitter.notes, splitter.cut_at)


def _read_blocks(blocks: TextBlocks, collection: TraceCollector, label: str, helpers: int, names: int) -> EventSplitter:
    builder = ColumnBuilder(collection.tables)
    sharing: PieceDistributor | None = None

    def add(piece: bytes) -> bool:
        if sharing is not None:
            sharing.add(piece)
            return True
        return add_part(builder.add(piece))

    def add_events(events: list[AnyEvent], text: bytes) -> bool:
        return add_part(builder.build(events, text))

    def add_part(part: PieceColumns | None) -> bool:
        if part is not None:
            collection.add(part)
        return part is not None

    add(b"")  # so that columns exist, even if empty
    splitter = EventSplitter(label, add, add_events, lambda: builder.decoders)
    with ExitStack() as stack:
        for block in blocks:
            if helpers and sharing is None and blocks.json_bytes > _SHARED_FROM and splitter.has_begun:
                sharing = PieceDistributor(collection, helpers, names)
                stack.callback(sharing.close)
            try:
                splitter.take_block(block)
            except RefusedPieces as refused:
                sharing, helpers = None, 0  # the rest is damaged, or not events any more
                splitter.resume(refused.pieces)
            if collection.is_empty and blocks.json_bytes > _LONGEST_WITHOUT_EVENT:
                raise RunFormatError(
                    f"{label}: not a torch.profiler trace: no event in {blocks.json_bytes} bytes of JSON"
                )
        if sharing is not None:
            shared, sharing = sharing, None
            try:
                shared.collect_all()
            except RefusedPieces as refused:
                splitter.resume(refused.pieces)
        splitter.finish()
    return splitter
