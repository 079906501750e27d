"""A document in a GitHub workflow: annotations, which are commands that a step prints, and a comment.

The escaping of commands is that of actions/toolkit (packages/core/src/command.ts), which the runner undoes.
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
# the same is kept to for notices.
SHOWN = 10
_TITLE, _LINE = 200, 600

# What GitHub takes. A comment is refused at 65,536 characters; counted here as bytes, of which there are no fewer.
COMMENT_FILE = "comment.md"
COMMENT_BYTES = 65_536
SUMMARY_BYTES = 2**20  # a step's summary that is larger is not shown at all
_ROWS = (1000, 500, 250, 120, 80, 60, 50, 40, 25, 15, 8)  # of a table or a list, as many as have room
_ROOM = 200  # bytes for what is said of what was left out

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
        """The line that makes the runner show it."""
        return f"::{self.level} title={_escape_property(self.title)}::{_escape_message(self.message)}"


def format_annotations(document: Document) -> str:
    """A command a line, nothing where all passes: an error for each suite of which something fails, a warning where
    something is worse or not known, a notice where something is better. Where there are more than GitHub shows, the
    last says how many more.
    """
    lines = []
    for level, outcomes in _LEVELS:
        known = [_build_annotation(document, level, outcomes, suite) for suite in document.suites]
        lines += [
            each.command for each in _limit_annotations(document, level, [each for each in known if each is not None])
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


def _limit_annotations(document: Document, level: str, known: Sequence[WorkflowAnnotation]) -> list[WorkflowAnnotation]:
    if len(known) <= SHOWN:
        return list(known)
    rest = len(known) - SHOWN + 1
    message = f"{format_plural(rest, 'more variant')} with an annotation of this kind: see the report"
    return [*known[: SHOWN - 1], WorkflowAnnotation(level, f"perfkit {document.kind}", message)]


def _escape_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


def format_comment(document: Document, *, report: str = "", limit: int = COMMENT_BYTES) -> str:
    """The document as Markdown of at most `limit` bytes, as a comment on a pull request and for a step's summary.

    `report` is the address of the page, or its file's name. It begins with a mark by which the next run finds the
    comment to write anew. Tables have as many rows as there is room for; then the longest sections lose their ends.
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
        last.insert(0, f"Left out, for there is a limit to the size of this text: {format_plural(left_out, 'part')}.")
    return "\n\n".join(text for part in (first, *parts, last) for text in part) + "\n"


def _count_bytes(parts: Sequence[Sequence[str]]) -> int:
    """Bytes, with the line ends between them."""
    return sum(len(text.encode()) + 2 for part in parts for text in part)
