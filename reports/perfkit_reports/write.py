"""Writes every form of the report beside the runs."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from perfkit.analysis.model.suite import Analysis
from perfkit.files import write_bytes
from perfkit.store.summary import REPORT_FILE, SUMMARY_FILE


def write_reports(analysis: Analysis, folder: Path) -> list[Path]:
    """Write `report.html`, `report.json`, `summary.json`, `report.md`, `tables/*.parquet` and `figures/*.png, *.svg`.

    Each file is written whole or not at all, the ones people open first. Returns their paths.
    """
    return written(_files(analysis), folder)


def written(files: Iterable[tuple[str, bytes]], folder: Path) -> list[Path]:
    """Write each (path in `folder`, content), whole or not at all. Returns their paths."""
    paths = []
    for name, data in files:
        write_bytes(folder / name, data)
        paths.append(folder / name)
    return paths


def as_json(analysis: msgspec.Struct) -> bytes:
    """An analysis itself; `msgspec.json.decode(data, type=...)` gives it back."""
    return msgspec.json.format(msgspec.json.encode(analysis), indent=1) + b"\n"


def _files(analysis: Analysis) -> Iterator[tuple[str, bytes]]:
    """(path in the folder, content). Imports are here because matplotlib and pyarrow take most of a second."""
    from perfkit_reports import html, markdown, summaries

    yield REPORT_FILE, html.render(analysis).encode()
    yield "report.json", as_json(analysis)
    yield SUMMARY_FILE, as_json(summaries.of_suite(analysis))
    yield "report.md", markdown.render(analysis).encode()

    from perfkit_reports import arrow, tables

    for name, table in tables.tables(analysis).items():
        yield f"tables/{name}.parquet", arrow.parquet(table)

    from perfkit_reports import static

    yield from ((f"figures/{name}", data) for name, data in static.images(analysis))
