"""Writes a document to a folder in every format."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from perfkit.core.files import write_bytes
from perfkit.store.summary import FIGURES_FOLDER, MARKDOWN_FILE, REPORT_FILE, TABLES_FOLDER
from perfkit_reports.document.document import Document
from perfkit_reports.document.raw import list_raw_files
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import images
from perfkit_reports.render.junit import Outcome


def write_document(
    document: Document,
    folder: Path,
    *,
    figures: Weight | None = None,
    unsure: Outcome = "skipped",
    report: str = REPORT_FILE,
) -> list[Path]:
    """Write `report.html`, the raw files, `report.md`, `tables/*.parquet`, and charts up to a weight as `figures/*`.

    Documents with verdicts have `comment.md`, which links `report`, and `junit.xml`, which records undecided verdicts
    as `unsure`, instead of `report.md`. Files are written atomically, those that people open first. Returns the paths.
    """
    return write_files(_render_files(document, figures, unsure, report), folder)


def write_report(document: Document, folder: Path, *, static: bool = False) -> list[Path]:
    """Write the report as commands do: main figures of a suite, all figures with `static`. Returns the paths.

    A suite's main figures are left out without matplotlib; `static` raises an `UnavailableError`.
    """
    main = Weight.BRIEF if document.kind == "suite" and images.can_render_images() else None
    figures = Weight.DETAIL if static else main
    # A check that is rendered again is strict with inconclusive verdicts.
    return write_document(document, folder, figures=figures, unsure="failure")


def write_files(files: Iterable[tuple[str, bytes]], folder: Path) -> list[Path]:
    """Write each (path in `folder`, content) atomically. Returns the paths."""
    paths = []
    for name, content in files:
        write_bytes(folder / name, content)
        paths.append(folder / name)
    return paths


def _render_files(
    document: Document, figures: Weight | None, unsure: Outcome, report: str
) -> Iterator[tuple[str, bytes]]:
    """(path in the folder, content). Local imports, since DuckDB takes a part of a second."""
    from perfkit_reports.render import github, html, junit, markdown

    yield REPORT_FILE, html.render(document).encode()
    yield from list_raw_files(document)
    if document.suites:
        yield github.COMMENT_FILE, github.format_comment(document, report=report).encode()
        yield junit.JUNIT_FILE, junit.render(document, unsure=unsure).encode()
    else:
        yield MARKDOWN_FILE, markdown.render(document).encode()
    if document.data:
        from perfkit_reports.render import parquet

        yield from ((f"{TABLES_FOLDER}/{data.name}.parquet", parquet.encode_parquet(data)) for data in document.data)
    if figures is not None:
        yield from ((f"{FIGURES_FOLDER}/{name}", content) for name, content in images.render_images(document, figures))
