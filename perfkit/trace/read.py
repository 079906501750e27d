"""Reading a trace: any torch.profiler, ROCm, XPU, Chrome or XLA trace as JSON, whole or damaged, into columns."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from perfkit.errors import RunFormatError
from perfkit.trace.model import (
    COMPILED_GRAPH,
    DEVICE_CATEGORIES,
    FLOW_KINDS,
    NONE,
    SYNC_KINDS,
    Category,
    Collective,
    Flows,
    Ints,
    MemoryEvents,
    Signature,
    Small,
    Stated,
    Syncs,
    Trace,
)
from perfkit.trace.reading.classify import classify, place_on_devices, runtime_of
from perfkit.trace.reading.collect import (
    Collection,
    correlate_by_external_id,
    drop_impossible,
    drop_untimed,
    end_and_order,
    move_sizes_to_copies,
)
from perfkit.trace.reading.columns import Builder, Part
from perfkit.trace.reading.growing import reorder, without_room_for_nothing
from perfkit.trace.reading.kineto import AnyEvent, without_gc
from perfkit.trace.reading.ours import drop_ours
from perfkit.trace.reading.overhead import overhead_us
from perfkit.trace.reading.pairs import pair
from perfkit.trace.reading.parallel import Refused, Sharing
from perfkit.trace.reading.places import places
from perfkit.trace.reading.remarks import remarks
from perfkit.trace.reading.source import open_source
from perfkit.trace.reading.splitter import Splitter
from perfkit.trace.reading.stream import Limits, TextBlocks
from perfkit.trace.reading.surroundings import rank_in_name, read_surroundings
from perfkit.trace.reading.tables import Tables
from perfkit.trace.reading.unfinished import end_with_the_recording
from perfkit.visible import visible

__all__ = [
    "COMPILED_GRAPH",
    "DEVICE_CATEGORIES",
    "FLOW_KINDS",
    "NONE",
    "SYNC_KINDS",
    "Category",
    "Collective",
    "Flows",
    "Ints",
    "Limits",
    "MemoryEvents",
    "Signature",
    "Small",
    "Stated",
    "Syncs",
    "Trace",
    "read_trace",
]


_LONGEST_WITHOUT_EVENT = 256 << 20
# Names of generated kernels and of templates have some thousand characters.
_LONGEST_NAME = 1 << 14
_SHARED_FROM = 32 << 20  # bytes of JSON from which another process pays


def read_trace(
    source: str | Path,
    *,
    limits: Limits = Limits(),  # noqa: B008 - a frozen value
    workers: int = 1,
    allocations: bool = True,
) -> Trace:
    """Read the trace at a path or URL: JSON, plain, gzip or zstd, with `workers` processes if it is large.

    Without `allocations` the trace's `memory`, which may be a large part of it, stays empty. What is damaged is
    repaired or left out, and `Trace.notes` says so. `RunFormatError` names a file that cannot be read, holds no trace
    at all, or exceeds the limits.
    """
    label = str(source)
    file, file_bytes = open_source(source)
    with file, without_gc():
        blocks = TextBlocks(file, label, file_bytes, limits)
        collection = Collection(Tables(limits.names), allocations)
        splitter = _read_blocks(blocks, collection, label, workers - 1, limits.names)
    return _trace(source, file_bytes, blocks, splitter, collection)


def _read_blocks(blocks: TextBlocks, collection: Collection, label: str, helpers: int, names: int) -> Splitter:
    builder = Builder(collection.tables)
    sharing: Sharing | None = None

    def add(piece: bytes) -> bool:
        if sharing is not None:
            sharing.add(piece)
            return True
        return add_part(builder.add(piece))

    def add_events(events: list[AnyEvent], text: bytes) -> bool:
        return add_part(builder.build(events, text))

    def add_part(part: Part | None) -> bool:
        if part is not None:
            collection.add(part)
        return part is not None

    add(b"")  # so that there are columns, if empty ones
    splitter = Splitter(label, add, add_events, lambda: builder.decoders)
    with ExitStack() as stack:
        for block in blocks:
            if helpers and sharing is None and blocks.json_bytes > _SHARED_FROM and splitter.has_begun:
                sharing = Sharing(collection, helpers, names)
                stack.callback(sharing.close)
            try:
                splitter.take_block(block)
            except Refused as refused:
                sharing, helpers = None, 0  # the rest is damaged, or not events any more
                splitter.resume(refused.pieces)
            if collection.is_empty and blocks.json_bytes > _LONGEST_WITHOUT_EVENT:
                raise RunFormatError(
                    f"{label}: not a trace of torch.profiler: no event in {blocks.json_bytes} bytes of JSON"
                )
        if sharing is not None:
            shared, sharing = sharing, None
            try:
                shared.collect_all()
            except Refused as refused:
                splitter.resume(refused.pieces)
        splitter.finish()
    return splitter


def _name(text: str) -> str:
    return visible(text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…")


def _trace(
    source: str | Path, file_bytes: int, blocks: TextBlocks, splitter: Splitter, collection: Collection
) -> Trace:
    tables = collection.tables
    counts: Counter[str] = collection.notes + splitter.notes
    rows = collection.take_rows()
    cats = ["" if cat is None else cat for cat in tables.cat]
    drop_ours(rows, cats)
    if counts["broken event"] and not (len(rows["kind"]) or collection.metadata):
        raise RunFormatError(
            f"{source}: not a trace of torch.profiler: a list of {counts['broken event']} values, none of them an event"
        )
    counts["unpaired"] = pair(rows)
    counts["impossible duration"] += drop_impossible(rows)
    threads = [(str(process), str(thread)) for process, thread in tables.thread]
    where = places(threads, collection.metadata)
    names = ["" if name is None else _name(str(name)) for name in tables.name]
    category = classify(rows, cats, names, where)
    counts["unfinished"] = end_with_the_recording(rows, cats, category)
    counts["overhead"] = overhead_us(rows, cats)
    del rows["cat"], rows["hlo"], rows["numbered"], rows["kind"]
    place_on_devices(rows, category, threads, where)
    correlate_by_external_id(rows, category)
    move_sizes_to_copies(rows, category)
    rows["category"] = category
    untimed = drop_untimed(rows)
    counts["untimed"] = len(untimed)
    reorder(rows, end_and_order(rows))
    without_room_for_nothing(rows)
    around = read_surroundings(splitter.surroundings)
    rank = around.rank
    if rank is None:
        rank = rank_in_name(str(source))
        counts["rank by name"] = int(rank is not None)
    counts["names"], counts["signatures"] = tables.name.overflowed, tables.signature.overflowed
    return Trace(
        path=Path(source),
        source=str(source),
        file_bytes=file_bytes,
        json_bytes=blocks.json_bytes,
        cut=bool(blocks.damage) or splitter.cut_at is not None,
        notes=remarks(counts, blocks, splitter, around),
        rank=rank,
        world_size=around.world_size,
        group_sizes=around.group_sizes,
        properties=around.properties,
        base_ns=around.base_ns,
        devices=around.devices,
        names=names,
        threads=threads,
        thread_names=where.names,
        runtime=runtime_of(cats),
        signatures=[Signature(*signature.split(b"\0")) for signature in tables.signature],
        geometries=list(tables.geometry),
        statements=[each._replace(kernel=_name(each.kernel)) if each.kernel else each for each in tables.stated],
        collectives=list(tables.collective),
        flows=collection.build_flows(),
        memory=collection.build_memory_events(),
        syncs=collection.build_syncs(),
        untimed=untimed,
        **rows,
    )
