"""Histories of suites, checks and baselines that are written by the fixtures as by perfkit itself."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.check.history.history import find_latest_regressions, read_history
from perfkit.check.history.history_reader import REPORT
from perfkit.check.history.result import History, QuantitySeries, is_regression
from perfkit.check.judge.check_thresholds import Threshold
from perfkit.check.judge.result import Check, CheckedSide, CheckedVariant, JudgedQuantity, Verdict
from perfkit.core.errors import UsageError
from perfkit.core.files import read_json, write_json
from perfkit.core.record.step_samples import StepSamples
from perfkit.store.baseline import BASELINE_FILE, Baseline, StoredVariant, write_baseline
from perfkit.store.layout import SUITE_FILE, Suite
from perfkit.store.pairs import Pair
from perfkit.store.summary import CHECK_FILE
from tests.fixtures.figures import list_figures
from tests.fixtures.sample_histories import GitRepository, noisy_steps, write_past
from tests.fixtures.suites import ENVIRONMENT, changed

GIB = 2**30


def series(history: History, quantity: str, variant: str = "amp") -> QuantitySeries:
    (found,) = [each for each in history.series if each.quantity == quantity and each.variant == variant]
    return found


@pytest.fixture
def repository(tmp_path: Path) -> tuple[GitRepository, list[str]]:
    """Two commits between any two of forty runs."""
    git = GitRepository(tmp_path / "repository")
    runs = []
    for day in range(40):
        git.commit(f"First of {day}")
        runs.append(git.commit(f"Second of {day}"))
    return git, runs


def test_a_slower_level_names_its_commits(repository: tuple[GitRepository, list[str]]) -> None:
    git, revisions = repository
    steps = noisy_steps([(24, 0.1), (16, 0.105)], 0.01, seed=2)
    history = read_history(write_past(git.folder / "runs", steps, revisions=revisions))

    found = series(history, "step_time")
    (change,) = found.changes
    assert (change.first_run, change.worse) == (24, True)
    assert change.change == pytest.approx(0.05, abs=0.012)
    assert change.low is not None
    assert change.high is not None
    assert change.low < 0.05 < change.high
    assert change.p_value is not None
    assert change.p_value < 0.01
    assert (change.commits.before, change.commits.after) == (revisions[23], revisions[24])
    assert [commit.title for commit in change.commits.commits] == ["Second of 24", "First of 24"]
    assert change.commits.count == 2
    assert found.points[0].processes == pytest.approx(sorted(found.points[0].processes), rel=0.02)
    assert {each.quantity for each in find_latest_regressions(history)} == {"step_time", "cpu_time"}

    lax = {"step_time": Threshold(text="20%", relative=0.2), "cpu_time": Threshold(text="6%", relative=0.06)}
    history = read_history(git.folder / "runs", thresholds=lax)
    assert {each.quantity for each in find_latest_regressions(history)} == {"cpu_time"}, "half of 20 % is more than 5 %"


def test_what_is_counted_changes_with_every_other_value(tmp_path: Path) -> None:
    peaks = [GIB, GIB, GIB + 512, GIB + 512, GIB]
    history = read_history(write_past(tmp_path, [0.1] * 5, peaks=peaks))

    found = series(history, "peak_allocated")
    assert not is_regression(found, found.changes[0]), "512 bytes are less than the threshold"
    changes = found.changes
    assert [(change.first_run, change.worse, change.p_value) for change in changes] == [
        (2, True, None),
        (4, False, None),
    ]
    assert changes[0].change == pytest.approx(512 / GIB)
    assert "repository" in changes[0].commits.reason
    assert find_latest_regressions(history) == ()


def test_machines_are_never_joined(tmp_path: Path) -> None:
    other = changed(ENVIRONMENT, threads=16)
    environments = [ENVIRONMENT, other] * 8
    history = read_history(write_past(tmp_path, [0.1, 0.02] * 8, environments=environments))

    found = [each for each in history.series if each.quantity == "step_time"]
    assert [len(each.points) for each in found] == [8, 8]
    assert all(each.changes == () for each in found)
    assert history.machines == ("Test CPU, 16 threads", "Test CPU, 2 threads")
    assert ("history.machines", {"machines": 2}) in [(note.id, note.figures) for note in history.notes]


def test_another_torch_is_told_at_the_change(tmp_path: Path) -> None:
    environments = [ENVIRONMENT] * 6 + [changed(ENVIRONMENT, torch="2.14.0")] * 6
    history = read_history(write_past(tmp_path, noisy_steps([(6, 0.1), (6, 0.2)], 0.01, 2), environments=environments))

    (change,) = series(history, "step_time").changes
    assert change.environment_differences == ("torch: 2.13.0 -> 2.14.0",)


def test_missing_revisions_widen_the_range(repository: tuple[GitRepository, list[str]]) -> None:
    git, revisions = repository
    told: list[str | None] = [*revisions[:10], None, None, *revisions[12:20]]
    steps = noisy_steps([(11, 0.1), (9, 0.2)], 0.01, 1)
    (change,) = series(read_history(write_past(git.folder / "runs", steps, revisions=told)), "step_time").changes

    assert change.first_run == 11
    assert (change.commits.before, change.commits.after) == (revisions[9], revisions[12])
    assert change.commits.count == 6
    assert "revision" in change.commits.reason


def test_one_revision_on_both_sides_blames_no_commit(tmp_path: Path) -> None:
    steps = noisy_steps([(6, 0.1), (6, 0.2)], 0.01, 1)
    history = read_history(write_past(tmp_path, steps, revisions=["abc", *["abc-dirty"] * 11]))

    found = series(history, "step_time")
    assert "same revision" in found.changes[0].commits.reason
    assert [point.dirty for point in found.points[:2]] == [False, True]


def test_runs_out_of_the_order_of_commits(repository: tuple[GitRepository, list[str]]) -> None:
    git, revisions = repository
    steps = noisy_steps([(6, 0.1), (6, 0.2)], 0.01, 1)
    written = write_past(git.folder / "runs", steps, revisions=revisions[:12][::-1])
    (change,) = series(read_history(written), "step_time").changes

    assert change.commits.count is None
    assert "not an ancestor" in change.commits.reason


def test_equal_times_keep_one_order(tmp_path: Path) -> None:
    write_past(tmp_path, [0.1, 0.2, 0.3])
    for folder in tmp_path.iterdir():
        write_json(folder / SUITE_FILE, changed(read_json(folder / SUITE_FILE, Suite), created_at="no time"))
    history = read_history(tmp_path)

    assert [point.value for point in series(history, "step_time").points] == pytest.approx([0.1, 0.2, 0.3])
    assert "history.undated" in [note.id for note in history.notes]


def test_a_single_run_is_a_level_without_an_interval(tmp_path: Path) -> None:
    found = series(read_history(write_past(tmp_path, [0.1])), "step_time")

    assert (found.levels[0].value, found.levels[0].low) == (pytest.approx(0.1), None)
    assert (found.changes, found.noise, found.detectable) == ((), None, None)


def test_newest_runs_that_are_far_off_are_pending(tmp_path: Path) -> None:
    steps = noisy_steps([(20, 0.1)], 0.01, 3)
    found = series(read_history(write_past(tmp_path, [*steps, 0.15])), "step_time")

    assert found.changes == ()
    assert "above the level" in found.pending
    assert "2 more runs" in found.pending
    assert found.points[-1].is_outlier


def test_a_damaged_suite_is_left_out_and_said(tmp_path: Path) -> None:
    write_past(tmp_path, [0.1, 0.1, 0.1])
    (tmp_path / "night-001" / SUITE_FILE).write_text("{")
    history = read_history(tmp_path)

    assert (history.runs, len(series(history, "step_time").points)) == (2, 2)
    (note,) = (note for note in history.notes if note.id == "history.unreadable")
    assert (note.figures, {"1", "3"} <= {*list_figures(note.text)}) == ({"files": 1}, True)


def test_a_report_of_an_older_format_is_none_and_one_of_today_is(tmp_path: Path) -> None:
    write_past(tmp_path, [0.1])
    (suite,) = tmp_path.glob(f"**/{SUITE_FILE}")
    analysis = analyze_suite(suite.parent)
    write_json(suite.parent / REPORT, analysis)
    assert "history.no_report" not in [note.id for note in read_history(tmp_path).notes]
    content = msgspec.to_builtins(analysis)
    for variant in content["variants"]:
        del variant["trace"]
        variant |= {"time_split": [], "points": [], "ops": []}
    (suite.parent / REPORT).write_bytes(msgspec.json.encode({**content, "schema_version": 2}))
    assert "history.no_report" in [note.id for note in read_history(tmp_path).notes]


def test_waits_of_zero_have_no_logarithm(tmp_path: Path) -> None:
    for day in range(8):
        _write_check(tmp_path / f"check-{day}", day, data_wait=0.0 if day < 4 else 1.0)
    (change,) = series(read_history(tmp_path), "data_wait").changes

    assert (change.first_run, change.change, change.low, change.worse) == (4, None, None, True)


def test_checks_give_their_newer_side(tmp_path: Path) -> None:
    _write_check(tmp_path / "check", 1, data_wait=0.1)
    history = read_history(tmp_path)

    found = series(history, "step_time")
    assert (found.how, found.points[0].value, found.points[0].revision) == ("lock-step", 0.2, "def")
    assert found.points[0].dirty
    assert series(history, "peak_allocated").points[0].value == 3.0


def _write_check(folder: Path, day: int, data_wait: float) -> None:
    pairs = (Pair(before=StepSamples(wall_s=(0.1,)), after=StepSamples(wall_s=(0.2, 0.2, 0.9)), seconds=1.0),)
    base = {"unit": "bytes", "more_is_worse": True, "verdict": Verdict.PASS, "reason": ""}
    exact = JudgedQuantity(quantity="peak_allocated", title="peak allocated", before=2.0, after=3.0, exact=True, **base)
    wait = JudgedQuantity(quantity="data_wait", title="waiting", before=1.0, after=data_wait, **base)
    common = {"workload": "gpt", "variant": "amp", "pairing": "lock-step"}
    check = Check(
        created_at=f"2026-02-{day + 1:02d}T00:00:00Z",
        perfkit="0.1.0",
        command="perfkit check",
        before=CheckedSide(label="main"),
        after=CheckedSide(label="here", revision="def-dirty", environment=ENVIRONMENT),
        verdict=Verdict.PASS,
        variants=(
            CheckedVariant(quantities=(exact,), pairs=pairs, **common),
            CheckedVariant(quantities=(wait,), **common),
        ),
    )
    write_json(folder / CHECK_FILE, check)


def test_a_baseline_has_the_history_of_its_commits(tmp_path: Path) -> None:
    git = GitRepository(tmp_path)
    for flops in (1e9, 1e9, 2e9):
        stored = StoredVariant(exact={"flops": flops}, processes={"step_time": (flops, flops)})
        environment = changed(ENVIRONMENT, git_revision=None)
        write_baseline(
            tmp_path / BASELINE_FILE,
            Baseline(perfkit="0.1.0", environment=environment, variants={"gpt": {"amp": stored}}),
        )
        git.commit(f"{flops}", BASELINE_FILE)
    last = git.commit("After it")
    history = read_history(tmp_path / BASELINE_FILE)

    (found,) = history.series
    assert (found.quantity, found.how) == ("flops", "stored")
    (change,) = found.changes
    assert change.commits.count == 2  # an unchanged baseline has no commit's difference
    assert change.commits.after != last


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no suite.json"):
        read_history(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        read_history(tmp_path / "none")


def test_a_baseline_outside_of_git_is_refused(tmp_path: Path) -> None:
    (tmp_path / BASELINE_FILE).write_text("{}")
    with pytest.raises(UsageError, match="git repository"):
        read_history(tmp_path / BASELINE_FILE)
