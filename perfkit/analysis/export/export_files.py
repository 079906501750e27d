"""Writes the files of an analysis for other tools."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from perfkit.analysis.export.perfetto import write_perfetto
from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core.files import write_bytes
from perfkit.core.text_blocks import ReadLimits
from perfkit.store.stack_formats import StackProfile, WeightedStack, encode_speedscope_profiles


def build_speedscope(trace: RankTrace) -> bytes:
    """Build two profiles of the mean step: its time, and the time above the roofs where known."""
    within = [row for row in trace.ops if row.phase != OUTSIDE]
    above = [(row, row.seconds - row.attainable_s) for row in within if row.attainable_s is not None]
    profiles = [
        StackProfile(f"{trace.label}: time", "milliseconds", [_build_stack(row, row.seconds) for row in within])
    ]
    if any(excess_s > 0 for _, excess_s in above):
        stacks = [_build_stack(row, excess_s) for row, excess_s in above if excess_s > 0]
        profiles.append(StackProfile(f"{trace.label}: time above the roofline", "milliseconds", stacks))
    return encode_speedscope_profiles(profiles)


def _build_stack(row: OpRow, seconds: float) -> WeightedStack:
    """Phase, the module and those around it, the op."""
    levels = row.module.split("/") if "/" in row.module else row.module.split(".")
    modules = [level for level in levels if level]
    return WeightedStack([row.phase or "no phase", *modules, row.name], seconds * 1e3)


PERFETTO, SPEEDSCOPE = "perfetto", "speedscope"


def write_exports(
    analysis: TraceAnalysis,
    folder: Path,
    formats: Sequence[str],
    *,
    device: str | None = None,
    captures: Sequence[str] = (),
    counted: str | Path | None = None,
    limits: ReadLimits = ReadLimits(),  # noqa: B008 - a frozen value
) -> Iterator[Path]:
    """Write every trace of an analysis in some formats, and yield each path once written.

    `device`, `captures`, `counted` and `limits` are what the traces were analyzed with.
    """
    for trace in analysis.traces:
        name = re.sub(r"[^\w.-]+", "-", trace.label).strip("-.") or "trace"
        if PERFETTO in formats:
            path = folder / f"{name}.perfetto.json.gz"
            read: dict[str, Any] = {"device": device, "captures": captures, "counted": counted, "limits": limits}
            yield write_perfetto(trace, analysis.findings, path, **read)
        if SPEEDSCOPE in formats:
            path = folder / f"{name}.speedscope.json"
            write_bytes(path, build_speedscope(trace))
            yield path
