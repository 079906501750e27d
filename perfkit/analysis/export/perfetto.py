"""Writes a trace with the results of its analysis, for Perfetto's UI (ui.perfetto.dev)."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from perfkit.analysis.export.chrome_events import encode_events
from perfkit.analysis.export.event_splicing import write_events, write_spliced_trace
from perfkit.analysis.export.recorded_events import encode_head, encode_trace_events
from perfkit.analysis.export.tracks import build_counter_tracks, build_tracks
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.replay.replay import replay_trace
from perfkit.analysis.trace.capture_joining import join_captures
from perfkit.analysis.trace.rank_trace import analyze_with_details
from perfkit.analysis.trace.trace_device import identify_devices
from perfkit.core.note import has_note
from perfkit.core.text_blocks import ReadLimits
from perfkit.devices.lookup.trace_ceilings import resolve_trace_ceilings
from perfkit.trace.counters.match_counters import read_counters
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.event_table.remarks import IN_NANOSECONDS
from perfkit.trace.readers.trace_reader import has_json_events, read_trace


def write_perfetto(
    rank: RankTrace,
    findings: Sequence[Finding],
    path: Path,
    *,
    device: str | None = None,
    captures: Sequence[str] = (),
    counted: str | Path | None = None,
    limits: ReadLimits = ReadLimits(),  # noqa: B008 - a frozen value
) -> Path:
    """Read the file of an analyzed trace again, and write it to `path` with perfkit's tracks; returns the path.

    Args:
        rank: the trace as it was analyzed: it says which file, which device, and what it is held against.
        findings: those of the analysis, of which its own are shown.
        path: of the file to write, gzipped JSON in Chrome's trace format.
        device, captures, counted, limits: as it was analyzed with.

    Events of a file in JSON are copied unchanged; of other formats they are written as read (`recorded_events`).
    perfkit's own have the category `perfkit`, which `perfkit analyze` drops when it reads them.
    """
    source = rank.file_info.path
    trace = read_trace(source, limits=limits)
    ops, _, _ = join_captures(read_ops(trace), source, captures, limits, must_fit=False)
    read = None if counted is None else read_counters(counted)
    by_device = [resolve_trace_ceilings(each, device).ceilings for each in identify_devices(ops)]
    engine = analyze_with_details(
        ops, rank.ceilings, device_name=rank.device_name, counters=read, by_device=by_device
    ).engine
    mine = [finding for finding in findings if finding.variant in ("", rank.label)]
    in_json = has_json_events(source, limits)
    unit_ns = 1 if in_json and has_note(rank.file_info.notes, IN_NANOSECONDS) else 1000
    added = encode_events(
        build_tracks(ops, engine, replay_trace(ops, engine.windows), mine),
        build_counter_tracks(ops, engine),
        unit_ns=unit_ns,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    if in_json:
        write_spliced_trace(source, added, path, limits)
    else:
        write_events(encode_head(trace), chain(added, encode_trace_events(trace)), path)
    return path
