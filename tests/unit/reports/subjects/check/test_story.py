import msgspec

from perfkit.check.result import Side
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
    assert story.to_do(stopped) == "The reason is above; its output is in the run's output.log."
    both = msgspec.structs.replace(stopped, variants=(*stopped.variants, sample_checks.regressed()))
    assert story.headline(both) == (
        "4 of 10 gated quantities got worse by more than the threshold, in 1 of 2 variants, "
        "and 1 of 2 variants does not train to the end"
    )
