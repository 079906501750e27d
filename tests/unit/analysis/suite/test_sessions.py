"""What was measured on other days."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.suite.analyse import analyse
from perfkit.files import read_json, write_json
from perfkit.record import Run, Status
from perfkit.store.layout import SUITE_FILE, Session, Suite, SuiteRun
from perfkit_reports.subjects.suite.document import document
from tests.fixtures.suites import record, spec, write_run, write_suite


def two_days(folder: Path, *, later_s: float) -> Analysis:
    """Three runs of each on Monday, three of the baseline and of ckpt on Tuesday."""
    shares = (1.0, 1.01, 0.99)
    write_suite(folder, {name: [record(0.1 * share) for share in shares] for name in ("baseline", "amp")})
    later: list[SuiteRun] = []
    for repeat, share in enumerate(shares, start=3):
        for name in ("baseline", "ckpt"):
            made = [record(later_s * share)]
            later.append(write_run(folder, spec(name), repeat, made, Run(status=Status.OK)))
    suite = read_json(folder / SUITE_FILE, Suite)
    sessions = [
        Session(created_at=day, command=f"perfkit bench {day}", request=None, first_repeat=first)
        for day, first in (("2026-01-05T10:00", 0), ("2026-01-06T10:00", 3))
    ]
    changes = {"variants": (*suite.variants, "ckpt"), "baselines": {**suite.baselines, "ckpt": "baseline"}}
    write_json(
        folder / SUITE_FILE,
        msgspec.structs.replace(suite, runs=(*suite.runs, *later), sessions=tuple(sessions), **changes),
    )
    return analyse(folder)


def titles(analysis: Analysis) -> list[str]:
    return [finding.title for finding in analysis.findings if "sessions" in finding.title]


def test_pairs_are_of_one_day_and_a_machine_that_was_slower_is_told(tmp_path: Path) -> None:
    analysis = two_days(tmp_path, later_s=0.3)
    assert [session.baseline_steps["baseline"].value for session in analysis.sessions] == [
        pytest.approx(0.1), pytest.approx(0.3),
    ]  # fmt: skip
    assert [session.variants for session in analysis.sessions] == [("baseline", "amp"), ("baseline", "ckpt")]
    for variant in analysis.variants[1:]:
        assert variant.difference is not None
        assert (variant.difference.ratio, variant.difference.pairs) == (pytest.approx(1.0), 3)
    assert titles(analysis) == ["The machine differed between sessions: baseline took 3.00 times as long"]
    made = document(analysis)
    assert "Variants were measured in 2 sessions" in made.summary[0].caption
    assert "sessions" in [block.id for block in made.blocks]


def test_days_that_were_alike_need_no_word(tmp_path: Path) -> None:
    assert titles(two_days(tmp_path, later_s=0.1)) == []
