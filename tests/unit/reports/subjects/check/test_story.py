import msgspec
import pytest

from perfkit.check.result import Side, Verdict
from perfkit_reports.subjects.check import story
from tests.fixtures import sample_checks


def test_a_revision_is_named_once() -> None:
    assert story.side(Side(label="origin/main", revision="4f2a9c1")) == "origin/main (4f2a9c1)"
    assert story.side(Side(label="base (4f2a9c1)", revision="4f2a9c1d8e01")) == "base (4f2a9c1)"
    dirty = "working tree (4f2a9c1, with uncommitted changes)"
    assert story.side(Side(label=dirty, revision="4f2a9c1d8e01-dirty")) == dirty
    assert story.side(Side(label="runs/old")) == "runs/old"


def test_a_side_that_does_not_train_is_no_figure_that_got_worse() -> None:
    stopped = sample_checks.stopped()
    assert story.headline(stopped) == "1 of 1 variant does not train to the end"
    assert story.to_do(stopped) == "The row of the variant says why; its output is in the run's output.log."
    both = msgspec.structs.replace(stopped, variants=(*stopped.variants, sample_checks.regressed()))
    assert story.headline(both) == (
        "4 of 10 gated quantities got worse by more than the threshold, in 1 of 2 variants, "
        "and 1 of 2 variants does not train to the end"
    )


@pytest.mark.parametrize("name", ["every_verdict", "too_noisy", "other_machine", "stopped", "nothing"])
def test_what_to_do_stands_before_the_rows_and_points_at_nothing_above(name: str) -> None:
    assert "above" not in story.to_do(getattr(sample_checks, name)())


def test_where_nothing_could_be_compared_the_rows_say_why() -> None:
    other = msgspec.structs.replace(sample_checks.other_machine(), verdict=Verdict.NOT_COMPARED)
    assert story.to_do(other) == "Each row says why."
