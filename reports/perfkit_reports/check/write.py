"""Writes every form of a check into a folder."""

from collections.abc import Iterator
from pathlib import Path

from perfkit.check.result import Check
from perfkit.store.summary import CHECK_FILE, REPORT_FILE, SUMMARY_FILE
from perfkit_reports.check import markdown
from perfkit_reports.render import junit
from perfkit_reports.render.junit import JUNIT_FILE, Outcome
from perfkit_reports.subjects.check import summary
from perfkit_reports.write import as_json, written

COMMENT_FILE = "comment.md"


def write_check(
    check: Check, folder: Path, *, report: str = REPORT_FILE, inconclusive: Outcome = "skipped"
) -> list[Path]:
    """Write `check.json`, `summary.json`, `comment.md`, `junit.xml` and `report.html`.

    `report` is the address of the report that the comment names, `inconclusive` what that is in JUnit's terms. Each
    file is written whole or not at all, `check.json` first. Returns their paths.
    """
    return written(_files(check, report, inconclusive), folder)


def _files(check: Check, report: str, inconclusive: Outcome) -> Iterator[tuple[str, bytes]]:
    """(path in the folder, content). The HTML report comes last: drawing its figures takes longest."""
    yield CHECK_FILE, as_json(check)
    yield SUMMARY_FILE, as_json(summary.of_check(check))
    yield COMMENT_FILE, markdown.render(check, report=report).encode()
    yield JUNIT_FILE, junit.render(check, inconclusive=inconclusive).encode()

    from perfkit_reports.check import html

    yield REPORT_FILE, html.render(check).encode()
