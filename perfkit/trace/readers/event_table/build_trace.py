"""Builds a trace of the events that a reader collected."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from perfkit.core.errors import RunFormatError
from perfkit.core.sanitize import escape_control_chars
from perfkit.core.texts.redact import redact_text
from perfkit.core.urls import is_url
from perfkit.trace.foreign_writers import find_foreign_content
from perfkit.trace.frameworks import find_framework
from perfkit.trace.model import (
    Signature,
    Trace,
)
from perfkit.trace.readers.event_table.begin_end_pairs import pair_begins_and_ends
from perfkit.trace.readers.event_table.classify_events import classify_events, find_runtime, place_on_devices
from perfkit.trace.readers.event_table.counter_samples import build_counter_samples
from perfkit.trace.readers.event_table.drop_own_events import drop_own_events
from perfkit.trace.readers.event_table.growing_columns import reorder_columns, share_empty_columns
from perfkit.trace.readers.event_table.piece_columns import Columns
from perfkit.trace.readers.event_table.profiler_overhead import sum_overhead_us
from perfkit.trace.readers.event_table.remarks import list_remarks
from perfkit.trace.readers.event_table.thread_info import read_thread_info
from perfkit.trace.readers.event_table.trace_collector import (
    TraceCollector,
    drop_impossible,
    drop_untimed,
    end_and_order,
    link_by_external_id,
    move_sizes_to_copies,
)
from perfkit.trace.readers.event_table.trace_metadata import TraceMetadata, parse_rank_in_name
from perfkit.trace.readers.event_table.unfinished_ranges import end_unfinished_ranges
from perfkit.trace.trace_text import TraceText

# Names of generated kernels and of templates have some thousand characters.
_LONGEST_NAME = 1 << 14


def _clean_name(text: str) -> str:
    return escape_control_chars(text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…")


def build_trace(
    text: TraceText,
    collection: TraceCollector,
    metadata: TraceMetadata,
    notes: Counter[str],
    cut_at: int | None = None,
    pair: Callable[[Columns], int] = pair_begins_and_ends,
) -> Trace:
    """Build the trace of all collected events.

    `notes` counts what the reader repaired; `cut_at` is the byte in which the file ends too early. `pair` makes
    complete events of begins and ends, and returns how many of them have no partner.
    """
    source, blocks = text.source, text.blocks
    tables = collection.tables
    counts: Counter[str] = collection.notes + notes
    rows = collection.take_rows()
    cats = ["" if cat is None else cat for cat in tables.cat]
    drop_own_events(rows, cats)
    if counts["broken event"] and not (len(rows["kind"]) or collection.metadata):
        raise RunFormatError(
            f"{source}: not a torch.profiler trace: a list of {counts['broken event']} values, none of them an event"
        )
    counts["unpaired"] = pair(rows)
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
    rank = metadata.rank
    if rank is None:
        rank = parse_rank_in_name(str(source))
        counts["rank by name"] = int(rank is not None)
    counts["names"], counts["signatures"] = tables.name.overflowed, tables.signature.overflowed
    return Trace(
        path=Path(redact_text(str(source)) if is_url(str(source)) else source),
        source=str(source),
        file_bytes=text.file_bytes,
        json_bytes=blocks.json_bytes,
        cut=bool(blocks.damage) or cut_at is not None,
        notes=list_remarks(counts, blocks, cut_at, metadata.complete),
        rank=rank,
        world_size=metadata.world_size,
        group_sizes=metadata.group_sizes,
        job=metadata.job,
        properties=metadata.properties,
        base_ns=metadata.base_ns,
        devices=metadata.devices,
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
        counters=build_counter_samples(collection.take_counters(), names, threads, where),
        untimed=untimed,
        **rows,
    )
