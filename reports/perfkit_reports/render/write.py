"""Writes a document into a folder in every form."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from perfkit.files import write_bytes
from perfkit.store.summary import REPORT_FILE
from perfkit_reports.document.document import Document
from perfkit_reports.document.raw import as_json as as_json

MARKDOWN_FILE = "report.md"


def write(document: Document, folder: Path, *, static: bool = False, markdown: str = MARKDOWN_FILE) -> list[Path]:
    """Write `report.html`, the raw files, Markdown, `tables/*.parquet`, and with `static` also `figures/*`.

    Each file is written whole or not at all, the ones people open first. Returns their paths.
    """
    return written(_files(document, static, markdown), folder)


def written(files: Iterable[tuple[str, bytes]], folder: Path) -> list[Path]:
    """Write each (path in `folder`, content), whole or not at all. Returns their paths."""
    paths = []
    for name, content in files:
        write_bytes(folder / name, content)
        paths.append(folder / name)
    return paths


def _files(document: Document, static: bool, markdown_file: str) -> Iterator[tuple[str, bytes]]:
    """(path in the folder, content). Imports are here because matplotlib and pyarrow take most of a second."""
    from perfkit_reports.render import html, markdown

    yield REPORT_FILE, html.render(document).encode()
    yield from document.raw.items()
    yield markdown_file, markdown.render(document).encode()
    if document.data:
        from perfkit_reports.render import parquet

        yield from ((f"tables/{data.name}.parquet", parquet.parquet(data)) for data in document.data)
    if static:
        from perfkit_reports.render import images

        yield from ((f"figures/{name}", content) for name, content in images.images(document))
