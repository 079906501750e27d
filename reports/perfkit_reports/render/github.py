"""Renders a document for GitHub workflows: annotations (commands that a step prints) and a comment.

Commands are escaped as in actions/toolkit (packages/core/src/command.ts).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit_reports.document.cases import Outcome, VerdictSuite, list_reasons
from perfkit_reports.document.document import Document
from perfkit_reports.names import shorten_middle
from perfkit_reports.render import markdown
from perfkit_reports.render.markdown_text import escape_markdown, format_link
from perfkit_reports.wording import format_plural

# "GitHub Actions are limited to 10 warning annotations and 10 error annotations per step" (REST API, check runs);
# the same limit is used for notices.
SHOWN = 10
_TITLE, _LINE = 200, 600

# GitHub refuses comments above 65,536 characters; bytes are an upper bound.
COMMENT_FILE = "comment.md"
COMMENT_BYTES = 65_536
SUMMARY_BYTES = 2**20  # GitHub does not show larger step summaries
_ROWS = (1000, 500, 250, 120, 80, 60, 50, 40, 25, 15, 8)  # rows of a table or list: the largest number that fits
_ROOM = 200  # bytes reserved for the note on omitted parts

_LEVELS: tuple[tuple[str, tuple[Outcome, ...]], ...] = (
    ("error", ("fail",)),
    ("warning", ("worse", "unsure", "skipped")),
    ("notice", ("better",)),
)


@dataclass(frozen=True)
class WorkflowAnnotation:
    """`level` is `error`, `warning` or `notice`."""

    level: str
    title: str
    message: str

    @property
    def command(self) -> str:
        """The command line for the runner."""
        return f"::{self.level} title={_escape_property(self.title)}::{_escape_message(self.message)}"


def format_annotations(document: Document) -> str:
    """One command per line, none if all pass: an error per failing suite, a warning per worse or undecided suite, a
    notice per improved suite. Beyond GitHub's limit, the last one counts the rest.
    """
    lines = []
    for level, outcomes in _LEVELS:
        annotations = [_build_annotation(document, level, outcomes, suite) for suite in document.suites]
        lines += [
            annotation.command
            for annotation in _limit_annotations(
                document, level, [annotation for annotation in annotations if annotation is not None]
            )
        ]
    return "".join(f"{line}\n" for line in lines)


def _build_annotation(
    document: Document, level: str, outcomes: Sequence[Outcome], suite: VerdictSuite
) -> WorkflowAnnotation | None:
    cases = [case for case in suite.cases if case.outcome in outcomes]
    if not cases:
        return None
    lines = [f"{case.word}: {case.name} {case.figures}" for case in cases if case.figures]
    if level != "notice":
        lines = [*([suite.remark] if suite.remark else []), *lines, *list_reasons(cases)]
    if any(case.outcome in ("fail", "worse") for case in cases):
        lines += [f"suspect: {suspect}" for suspect in suite.suspects]
    title = f"perfkit {document.kind}: {shorten_middle(suite.name, _TITLE)}"
    return WorkflowAnnotation(level, title, "\n".join(shorten_middle(line, _LINE) for line in lines))


def _limit_annotations(
    document: Document, level: str, annotations: Sequence[WorkflowAnnotation]
) -> list[WorkflowAnnotation]:
    if len(annotations) <= SHOWN:
        return list(annotations)
    excess = len(annotations) - SHOWN + 1
    message = f"{format_plural(excess, 'more variant')} of this kind: see the report"
    return [*annotations[: SHOWN - 1], WorkflowAnnotation(level, f"perfkit {document.kind}", message)]


def _escape_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


def format_comment(document: Document, *, report: str = "", limit: int = COMMENT_BYTES) -> str:
    """The document as Markdown of at most `limit` bytes, for a pull request comment or a step summary.

    `report` is the page's address or file name. A leading marker lets the next run find and replace the comment. Tables
    are truncated to fit, then the longest sections.
    """
    word = markdown.format_verdict(document)
    first = [f"<!-- perfkit {document.kind} -->", f"## {word}{escape_markdown(document.headline)}"]
    last = [format_link("Report", report)] if report else []
    for rows in _ROWS:
        parts = markdown.render_parts(document, rows, rows)
        if _count_bytes([first, *parts, last]) <= limit:
            break
    left_out = 0
    while parts and _count_bytes([first, *parts, last]) > limit - _ROOM:
        longest = max(parts, key=lambda part: _count_bytes([part]))
        longest.pop()
        left_out += 1
        parts = [part for part in parts if part]
    if left_out:
        last.insert(0, f"{format_plural(left_out, 'part')} omitted to fit the size limit.")
    return "\n\n".join(text for part in (first, *parts, last) for text in part) + "\n"


def _count_bytes(parts: Sequence[Sequence[str]]) -> int:
    """Bytes including line ends."""
    return sum(len(text.encode()) + 2 for part in parts for text in part)
