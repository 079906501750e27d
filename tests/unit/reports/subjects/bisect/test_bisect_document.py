"""The report on a bisection."""

from perfkit.check.bisect.find_change import find_change, start_bisection
from perfkit.check.bisect.result import BisectCandidate
from perfkit_reports.render import markdown
from perfkit_reports.subjects.bisect.bisect_document import build_document, build_headline
from tests.unit.check.bisect.test_find_change import CANDIDATES, CONFIG, FakeChecks


def found(checks, candidates=CANDIDATES, kind="commits"):
    return find_change(start_bisection(kind, candidates, "perfkit bisect"), CONFIG, checks)


def test_the_headline_names_the_change():
    candidates = tuple(BisectCandidate(name=f"{number:040x}", detail=f"commit {number}") for number in range(9))
    headline = build_headline(found(FakeChecks(), candidates))
    assert "commit 5" in headline
    assert f"{5:012x}" in headline or "000000000000" in headline


def test_every_check_is_a_row():
    result = found(FakeChecks())
    document = build_document(result)
    (steps,) = (block for block in document.summary if block.id == "steps")
    assert len(steps.rows) == len(result.steps)
    assert "c5" in markdown.render(document)


def test_what_was_not_found_is_said():
    assert build_headline(found(FakeChecks(first_bad=99))) != build_headline(found(FakeChecks()))
