"""The report on a bisection."""

from perfkit.check.judge.result import Verdict
from perfkit_reports.render import markdown
from perfkit_reports.subjects.bisect.bisect_document import build_document, build_headline
from tests.fixtures.sample_bisections import FakeChecks, found, judged


def test_the_headline_names_the_change():
    assert "change 5" in build_headline(found())


def test_every_check_is_a_row():
    result = found()
    document = build_document(result)
    (steps,) = (block for block in document.summary if block.id == "steps")
    assert len(steps.rows) == len(result.steps)
    assert "change 5" in markdown.render(document)


def test_what_was_not_found_is_said():
    undecided = found(FakeChecks(odd={4: judged(Verdict.INCONCLUSIVE, after=110.0)}))
    headlines = {build_headline(each) for each in (found(), found(FakeChecks(first_bad=99)), undecided)}
    assert len(headlines) == 3
    assert "2 changes" in build_headline(undecided)
