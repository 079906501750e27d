"""Writes every form of a report on traces into a folder."""

from collections.abc import Iterator
from pathlib import Path

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit.store.summary import REPORT_FILE, SUMMARY_FILE, TRACE_REPORT_FILE
from perfkit_reports.render.write import as_json, written


def write_trace_reports(analysis: TraceAnalysis, folder: Path, *, static: bool = False) -> list[Path]:
    """Write `report.html`, `analysis.json`, `summary.json`, `report.md`, `tables/*.parquet`,
    and with `static` also `figures/*`.

    Each file is written whole or not at all, the ones people open first. Returns their paths.
    """
    return written(_files(analysis, static), folder)


def trace_json(analysis: TraceAnalysis) -> bytes:
    """The whole analysis; `msgspec.json.decode(data, type=TraceAnalysis)` gives it back."""
    return as_json(analysis)


def _files(analysis: TraceAnalysis, static: bool) -> Iterator[tuple[str, bytes]]:
    """(path in the folder, content). pyarrow and matplotlib are imported only when their turn comes."""
    from perfkit_reports import summaries, trace_html, trace_markdown

    yield REPORT_FILE, trace_html.render(analysis).encode()
    yield TRACE_REPORT_FILE, trace_json(analysis)
    yield SUMMARY_FILE, as_json(summaries.of_traces(analysis))
    yield "report.md", trace_markdown.render(analysis).encode()

    from perfkit_reports import arrow, trace_tables

    for name, table in trace_tables.tables(analysis).items():
        yield f"tables/{name}.parquet", arrow.parquet(table)
    if static:
        from perfkit_reports import trace_static

        yield from ((f"figures/{name}", data) for name, data in trace_static.images(analysis))
