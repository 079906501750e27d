import msgspec
import pytest

from perfkit.check.judge.result import CheckedSide, Verdict
from perfkit.core.record.environment import MachineLoad
from perfkit_reports.subjects.check import check_sentences
from tests.fixtures import sample_checks
from tests.fixtures.figures import list_figures


def test_a_revision_is_named_once() -> None:
    assert check_sentences.format_side(CheckedSide(label="origin/main", revision="4f2a9c1")) == "origin/main (4f2a9c1)"
    assert check_sentences.format_side(CheckedSide(label="base (4f2a9c1)", revision="4f2a9c1d8e01")) == "base (4f2a9c1)"
    dirty = "working tree (4f2a9c1, with uncommitted changes)"
    assert check_sentences.format_side(CheckedSide(label=dirty, revision="4f2a9c1d8e01-dirty")) == dirty
    assert check_sentences.format_side(CheckedSide(label="runs/old")) == "runs/old"


def test_a_side_that_does_not_train_is_no_figure_that_got_worse() -> None:
    stopped = sample_checks.stopped()
    assert list_figures(check_sentences.build_headline(stopped)) == ["1", "1"]
    assert "output.log" in check_sentences.suggest_action(stopped)
    both = msgspec.structs.replace(stopped, variants=(*stopped.variants, sample_checks.regressed()))
    assert list_figures(check_sentences.build_headline(both)) == ["4", "10", "1", "2", "+7.7 %", "1", "2"]


def test_a_busy_machine_is_the_first_thing_that_is_said_where_times_are_no_pass() -> None:

    worse = sample_checks.worse()
    assert list_figures(check_sentences.build_headline(worse)) == ["2", "5", "1.6", "2"]
    loaded = worse.variants[0].pairs[0].load
    noisy = sample_checks.too_noisy()
    pairs = tuple(msgspec.structs.replace(pair, load=loaded) for pair in noisy.variants[0].pairs)
    noisy = msgspec.structs.replace(noisy, variants=(msgspec.structs.replace(noisy.variants[0], pairs=pairs),))
    assert list_figures(check_sentences.build_headline(noisy)) == ["2", "5", "1.6", "2"]


def test_a_busy_machine_is_not_told_where_it_was_quiet_or_times_pass_or_only_counts_fail() -> None:
    busy = sample_checks.worse().variants[0]
    quiet = tuple(
        msgspec.structs.replace(pair, load=MachineLoad(seconds=4, cores=2, other_cores=0.02)) for pair in busy.pairs
    )
    assert check_sentences.describe_load([msgspec.structs.replace(busy, pairs=quiet)]) == ""
    timed = {each.quantity for each in busy.quantities if not each.exact}
    passing = tuple(
        msgspec.structs.replace(each, verdict=Verdict.PASS if each.quantity in timed else Verdict.FAIL)
        for each in busy.quantities
    )
    assert check_sentences.describe_load([msgspec.structs.replace(busy, quantities=passing)]) == ""


def test_what_is_worse_is_told_beside_what_failed_and_what_is_open() -> None:
    both = (sample_checks.slower(), sample_checks.regressed())
    failed = msgspec.structs.replace(sample_checks.one_of_two(), variants=both)
    assert list_figures(check_sentences.build_headline(failed)) == ["4", "11", "1", "2", "+7.7 %", "2"]
    open_ = msgspec.structs.replace(
        sample_checks.too_noisy(), variants=(sample_checks.slower(), sample_checks.undecided())
    )
    assert list_figures(check_sentences.build_headline(open_))[-3:] == ["1", "2", "2"]


def test_worse_that_is_to_fail_says_so() -> None:
    quiet = msgspec.structs.replace(sample_checks.worse(), variants=(sample_checks.slower(),), fail_on=Verdict.WORSE)
    assert check_sentences.build_headline(quiet).endswith("--fail-on treats as a failure")
    assert "omit --fail-on worse" in check_sentences.suggest_action(quiet)
    assert "pass --fail-on worse" in check_sentences.suggest_action(sample_checks.worse())


@pytest.mark.parametrize("name", ["every_verdict", "too_noisy", "other_machine", "stopped", "nothing"])
def test_what_to_do_stands_before_the_rows_and_points_at_nothing_above(name: str) -> None:
    assert "above" not in check_sentences.suggest_action(getattr(sample_checks, name)())


def test_where_nothing_could_be_compared_the_rows_say_why() -> None:
    other = msgspec.structs.replace(sample_checks.other_machine(), verdict=Verdict.NOT_COMPARED)
    assert check_sentences.suggest_action(other) != ""


@pytest.mark.parametrize("name", ["every_verdict", "better"])
def test_two_environments_have_no_baseline_to_write(name: str) -> None:
    check = msgspec.structs.replace(sample_checks.ALL[name](), under_test="environment")
    assert "--update" not in check_sentences.suggest_action(check)
