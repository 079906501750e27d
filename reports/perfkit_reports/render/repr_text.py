"""Renders a document as the repr of its result: at most ten lines of limited length."""

from collections import Counter
from collections.abc import Iterator, Sequence

from perfkit.analysis.model.finding import Finding
from perfkit_reports.document.blocks import Tile
from perfkit_reports.document.document import Document
from perfkit_reports.names import shorten_middle
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.wording import format_plural

MOST_TILES = 5
_MOST_TABLES = 6  # names shown
_LINE = 160  # characters
_SEVERITIES = ("warning", "gain", "note")


def render(document: Document, kind: str, findings: Sequence[Finding] | None) -> str:
    """Kind and title, headline, key figures, number of findings, tables, and where to find more.

    `findings` is None if results of this kind have none.
    """
    first, *following = (shorten_middle(flatten_text(line), _LINE) for line in _list_lines(document, kind, findings))
    return "\n  ".join((first, *following))


def _list_lines(document: Document, kind: str, findings: Sequence[Finding] | None) -> Iterator[str]:
    yield f"{kind}: {document.title.removeprefix(f'{kind} of ')}"
    yield document.headline
    for tile in document.tiles[:MOST_TILES]:
        yield f"{tile.title}: {_format_figure(tile)}"
    if findings is not None:
        counts = Counter(finding.severity for finding in findings)
        by_severity = ", ".join(format_plural(counts[name], name) for name in _SEVERITIES if counts[name])
        yield f"Findings: {len(findings)}" + (f" ({by_severity})" if by_severity else "")
    names = [table.name for table in document.data]
    if names:
        more = ", ..." if len(names) > _MOST_TABLES else ""
        yield f"Tables: {', '.join(names[:_MOST_TABLES])}{more}"
    cells = [".findings"] if findings is not None else []
    cells += [f".frame({names[0]!r})"] if names else []
    yield f"See {', '.join((*cells, '.to_html(path)', '.save(folder)'))}"


def _format_figure(tile: Tile) -> str:
    cell = tile.cell
    more = cell.detail if cell.known else cell.reason
    return f"{cell.text} ({more})" if more else cell.text
