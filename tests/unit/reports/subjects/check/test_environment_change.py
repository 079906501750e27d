"""Whether two environments did the same work."""

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.difference import ChangeRow, TraceDifference
from perfkit.check.judge.result import ChangeExplanation, CountChange, MemoryChange
from perfkit_reports.subjects.check.environment_change import is_same_work, list_changed_environment
from tests.fixtures import sample_checks

TIME = sample_checks.regressed().explanation.time  # type: ignore[union-attr]
MEMORY = (MemoryChange(category="parameter", before=4, after=4),)
GRAPH = CountChange(kind="graph", reason="", before=1, after=2)


def explain(evidence: str = "noise", memory: tuple[MemoryChange, ...] = MEMORY) -> ChangeExplanation:
    assert isinstance(TIME, TraceDifference)
    rows: tuple[ChangeRow, ...] = tuple(replace(row, evidence=evidence) for row in TIME.changes)
    assert rows
    return ChangeExplanation(time=replace(TIME, changes=rows), memory=memory)


@pytest.mark.parametrize("evidence", ["noise", "slower", ""])
def test_other_times_are_the_same_work(evidence: str) -> None:
    assert is_same_work(explain(evidence))


@pytest.mark.parametrize(
    "explained",
    [
        *(explain(evidence) for evidence in ("new", "gone", "more calls", "fewer calls", "other inputs")),
        explain(memory=(MemoryChange(category="parameter", before=4, after=5),)),
        explain(memory=()),
        replace(explain(), time=None),
        replace(explain(), compiled=(GRAPH,)),
    ],
)
def test_what_is_counted_otherwise_or_unknown_is_not(explained: ChangeExplanation) -> None:
    assert not is_same_work(explained)


def test_only_environments_are_described() -> None:
    check = sample_checks.passing()
    assert list_changed_environment(check) == ()
    assert list_changed_environment(replace(check, under_test="environment"))
