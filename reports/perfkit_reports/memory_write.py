"""Writes every form of a report on memory into a folder."""

from collections.abc import Iterator
from pathlib import Path

from perfkit.analysis.memory.result import MemoryAnalysis
from perfkit.store.summary import MEMORY_REPORT_FILE, REPORT_FILE, SUMMARY_FILE
from perfkit_reports.write import as_json, written


def write_memory_reports(analysis: MemoryAnalysis, folder: Path, *, static: bool = False) -> list[Path]:
    """Write `report.html`, `memory.json`, `summary.json`, `report.md`, `tables/*.parquet`,
    and with `static` also `figures/*`.

    Each file is written whole or not at all, the ones people open first. Returns their paths.
    """
    return written(_files(analysis, static), folder)


def memory_json(analysis: MemoryAnalysis) -> bytes:
    """The whole analysis; `msgspec.json.decode(data, type=MemoryAnalysis)` gives it back."""
    return as_json(analysis)


def _files(analysis: MemoryAnalysis, static: bool) -> Iterator[tuple[str, bytes]]:
    """(path in the folder, content). pyarrow and matplotlib are imported only when their turn comes."""
    from perfkit_reports import memory_html, memory_markdown, summaries

    yield REPORT_FILE, memory_html.render(analysis).encode()
    yield MEMORY_REPORT_FILE, memory_json(analysis)
    yield SUMMARY_FILE, as_json(summaries.of_memory(analysis))
    yield "report.md", memory_markdown.render(analysis).encode()

    from perfkit_reports import arrow, memory_tables

    for name, table in memory_tables.tables(analysis).items():
        yield f"tables/{name}.parquet", arrow.parquet(table)
    if static:
        from perfkit_reports import memory_static

        yield from ((f"figures/{name}", data) for name, data in memory_static.images(analysis))
