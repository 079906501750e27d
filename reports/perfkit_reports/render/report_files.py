"""Writes a document into a folder in every form."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from perfkit.files import write_bytes
from perfkit.store.summary import FIGURES_FOLDER, MARKDOWN_FILE, REPORT_FILE, TABLES_FOLDER
from perfkit_reports.document.document import Document
from perfkit_reports.document.raw import list_raw_files
from perfkit_reports.document.weight import Weight
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

    Of verdicts there are `comment.md`, in which `report` is the address of the page, and `junit.xml`, in which `unsure`
    says what is neither a pass nor a fail, in place of `report.md`. Each file is written whole or not at all, the ones
    people open first. Returns their paths.
    """
    return write_files(_render_files(document, figures, unsure, report), folder)


def write_report(document: Document, folder: Path, *, static: bool = False) -> list[Path]:
    """Write the report as commands do: main figures of a suite, all figures with `static`. Returns the paths."""
    figures = Weight.DETAIL if static else Weight.BRIEF if document.kind == "suite" else None
    # A check that is drawn again is as strict as can be with what is inconclusive.
    return write_document(document, folder, figures=figures, unsure="failure")


def write_files(files: Iterable[tuple[str, bytes]], folder: Path) -> list[Path]:
    """Write each (path in `folder`, content), whole or not at all. Returns their paths."""
    paths = []
    for name, content in files:
        write_bytes(folder / name, content)
        paths.append(folder / name)
    return paths


def _render_files(
    document: Document, figures: Weight | None, unsure: Outcome, report: str
) -> Iterator[tuple[str, bytes]]:
    """(path in the folder, content). Imports are here because matplotlib and pyarrow take most of a second."""
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
        from perfkit_reports.render import images

        yield from ((f"{FIGURES_FOLDER}/{name}", content) for name, content in images.render_images(document, figures))
