"""Writes the files of an analysis for other tools."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfkit.analysis.export.perfetto import write_perfetto
from perfkit.analysis.export.speedscope import build_speedscope
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core.files import write_bytes
from perfkit.core.text_blocks import ReadLimits

PERFETTO, SPEEDSCOPE = "perfetto", "speedscope"


def write_exports(
    analysis: TraceAnalysis,
    folder: Path,
    formats: Sequence[str],
    *,
    captures: Sequence[str] = (),
    counted: str | Path | None = None,
    limits: ReadLimits = ReadLimits(),  # noqa: B008 - a frozen value
) -> Iterator[Path]:
    """Write every trace of an analysis in some formats, and yield each path once written.

    `captures`, `counted` and `limits` are what the traces were analyzed with.
    """
    for trace in analysis.traces:
        name = re.sub(r"[^\w.-]+", "-", trace.label).strip("-.") or "trace"
        if PERFETTO in formats:
            path = folder / f"{name}.perfetto.json.gz"
            yield write_perfetto(trace, analysis.findings, path, captures=captures, counted=counted, limits=limits)
        if SPEEDSCOPE in formats:
            path = folder / f"{name}.speedscope.json"
            write_bytes(path, build_speedscope(trace))
            yield path
