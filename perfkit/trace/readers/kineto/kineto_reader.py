"""Reads Kineto's JSON into columns, and that of other writers of Chrome's trace format."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from perfkit.core.errors import RunFormatError
from perfkit.core.sanitize import escape_control_chars
from perfkit.core.text_blocks import TextBlocks
from perfkit.core.texts.redact import redact_text
from perfkit.core.urls import is_url
from perfkit.trace.foreign_writers import find_foreign_content
from perfkit.trace.frameworks import find_framework
from perfkit.trace.model import (
    Signature,
    Trace,
)
from perfkit.trace.readers.kineto.begin_end_pairs import pair_begins_and_ends
from perfkit.trace.readers.kineto.classify_events import classify_events, find_runtime, place_on_devices
from perfkit.trace.readers.kineto.drop_own_events import drop_own_events
from perfkit.trace.readers.kineto.event_columns import ColumnBuilder, PieceColumns
from perfkit.trace.readers.kineto.event_splitter import EventSplitter
from perfkit.trace.readers.kineto.growing_columns import reorder_columns, share_empty_columns
from perfkit.trace.readers.kineto.kineto import AnyEvent, pause_gc
from perfkit.trace.readers.kineto.parallel_decoding import PieceDistributor, RefusedPieces
from perfkit.trace.readers.kineto.profiler_overhead import sum_overhead_us
from perfkit.trace.readers.kineto.remarks import list_remarks
from perfkit.trace.readers.kineto.tables import TraceTables
from perfkit.trace.readers.kineto.thread_info import read_thread_info
from perfkit.trace.readers.kineto.trace_collector import (
    TraceCollector,
    drop_impossible,
    drop_untimed,
    end_and_order,
    link_by_external_id,
    move_sizes_to_copies,
)
from perfkit.trace.readers.kineto.trace_metadata import parse_rank_in_name, read_trace_metadata
from perfkit.trace.readers.kineto.unfinished_ranges import end_unfinished_ranges
from perfkit.trace.trace_text import TraceText

_LONGEST_WITHOUT_EVENT = 256 << 20
# Names of generated kernels and of templates have some thousand characters.
_LONGEST_NAME = 1 << 14
_SHARED_FROM = 32 << 20  # bytes of JSON from which another process pays


def read_kineto(text: TraceText) -> Trace:
    """Read a trace in JSON: torch.profiler's, ROCm's, XPU's, Chrome's or XLA's, whole or damaged.

    `RunFormatError` says of any other text that it is no trace.
    """
    with pause_gc():
        collection = TraceCollector(TraceTables(text.limits.names), text.allocations)
        splitter = _read_blocks(text.blocks, collection, str(text.source), text.workers - 1, text.limits.names)
    return _build_trace(text, splitter, collection)


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


def _clean_name(text: str) -> str:
    return escape_control_chars(text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…")


def _build_trace(text: TraceText, splitter: EventSplitter, collection: TraceCollector) -> Trace:
    source, blocks = text.source, text.blocks
    tables = collection.tables
    counts: Counter[str] = collection.notes + splitter.notes
    rows = collection.take_rows()
    cats = ["" if cat is None else cat for cat in tables.cat]
    drop_own_events(rows, cats)
    if counts["broken event"] and not (len(rows["kind"]) or collection.metadata):
        raise RunFormatError(
            f"{source}: not a torch.profiler trace: a list of {counts['broken event']} values, none of them an event"
        )
    counts["unpaired"] = pair_begins_and_ends(rows)
    counts["impossible duration"] += drop_impossible(rows)
    threads = [(str(process), str(thread)) for process, thread in tables.thread]
    where = read_thread_info(threads, collection.metadata)
    names = ["" if name is None else _clean_name(str(name)) for name in tables.name]
    category = classify_events(rows, cats, names, where)
    counts["unfinished"] = end_unfinished_ranges(rows, cats, category)
    counts["overhead"] = sum_overhead_us(rows, cats)
    del rows["cat"], rows["hlo"], rows["numbered"], rows["kind"]
    place_on_devices(rows, category, threads, where)
    link_by_external_id(rows, category)
    move_sizes_to_copies(rows, category)
    rows["category"] = category
    untimed = drop_untimed(rows)
    counts["untimed"] = len(untimed.start_ns)
    reorder_columns(rows, end_and_order(rows))
    share_empty_columns(rows)
    around = read_trace_metadata(splitter.surroundings)
    rank = around.rank
    if rank is None:
        rank = parse_rank_in_name(str(source))
        counts["rank by name"] = int(rank is not None)
    counts["names"], counts["signatures"] = tables.name.overflowed, tables.signature.overflowed
    return Trace(
        path=Path(redact_text(str(source)) if is_url(str(source)) else source),
        source=str(source),
        file_bytes=text.file_bytes,
        json_bytes=blocks.json_bytes,
        cut=bool(blocks.damage) or splitter.cut_at is not None,
        notes=list_remarks(counts, blocks, splitter, around),
        rank=rank,
        world_size=around.world_size,
        group_sizes=around.group_sizes,
        job=around.job,
        properties=around.properties,
        base_ns=around.base_ns,
        devices=around.devices,
        names=names,
        threads=threads,
        thread_names=where.names,
        runtime=find_runtime(cats, where.labels),
        framework=find_framework(cats, names, where.labels),
        foreign_content=find_foreign_content(cats, names),
        signatures=[Signature(*signature.split(b"\0")) for signature in tables.signature],
        geometries=list(tables.geometry),
        statements=[
            statement._replace(kernel=_clean_name(statement.kernel)) if statement.kernel else statement
            for statement in tables.stated
        ],
        collectives=list(tables.collective),
        flows=collection.build_flows(),
        memory=collection.build_memory_events(),
        syncs=collection.build_syncs(),
        untimed=untimed,
        **rows,
    )
