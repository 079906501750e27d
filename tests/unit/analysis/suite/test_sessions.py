"""What was measured on other days."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.files import read_json, write_json
from perfkit.core.record.claim import Relation
from perfkit.core.record.quantity import make_measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.store.layout import SUITE_FILE, MeasurementSession, Suite, SuiteRun
from perfkit_reports.document.blocks import Chart
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures.document_blocks import blocks
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import claim, record, spec, write_run, write_suite


def two_days(folder: Path, *, later_s: float, ckpt_s: float | None = None) -> Analysis:
    """Three runs of each on Monday, three of the baseline and of ckpt on Tuesday."""
    shares = (1.0, 1.01, 0.99)
    ckpt_s = later_s if ckpt_s is None else ckpt_s
    write_suite(folder, {name: [record(0.1 * share) for share in shares] for name in ("baseline", "amp")})
    later: list[SuiteRun] = []
    for repeat, share in enumerate(shares, start=3):
        for name in ("baseline", "ckpt"):
            made = [record(later_s * share) if name == "baseline" else compiled(ckpt_s * share)]
            later.append(write_run(folder, spec(name), repeat, made, RunResult(status=RunStatus.OK)))
    suite = read_json(folder / SUITE_FILE, Suite)
    sessions = [
        MeasurementSession(created_at=day, command=f"perfkit bench {day}", request=None, first_repeat=first)
        for day, first in (("2026-01-05T10:00", 0), ("2026-01-06T10:00", 3))
    ]
    changes = {"variants": (*suite.variants, "ckpt"), "baselines": {**suite.baselines, "ckpt": "baseline"}}
    write_json(
        folder / SUITE_FILE,
        msgspec.structs.replace(suite, runs=(*suite.runs, *later), sessions=tuple(sessions), **changes),
    )
    return analyze_suite(folder)


def compiled(step_s: float) -> RankRecord:
    acts = (claim("graphs", Relation.EQUAL, 1),)
    return record(step_s, claims=acts, facts={"graphs": 1.0, "compile_s": 0.98})


def shifts(analysis: Analysis) -> list[Finding]:
    return [finding for finding in analysis.findings if finding.id == "comparison.session_shift"]


def test_pairs_are_of_one_day_and_a_machine_that_was_slower_is_told(tmp_path: Path) -> None:
    analysis = two_days(tmp_path, later_s=0.3)
    assert [session.baseline_steps["baseline"].value for session in analysis.sessions] == [
        pytest.approx(0.1), pytest.approx(0.3),
    ]  # fmt: skip
    assert [session.variants for session in analysis.sessions] == [("baseline", "amp"), ("baseline", "ckpt")]
    for variant in analysis.variants[1:]:
        assert variant.difference is not None
        assert (variant.difference.ratio, variant.difference.pairs) == (pytest.approx(1.0), 3)
    (shift,) = shifts(analysis)
    assert (shift.variant, shift.figures) == (
        "baseline",
        {"fast_s": pytest.approx(0.1), "slow_s": pytest.approx(0.3)},
    )
    made = build_document(analysis)
    assert {"2"} <= {*list_figures(made.summary[0].caption)}
    assert "sessions" in [block.id for block in made.blocks]


def test_what_a_step_saves_is_of_the_pairs_and_not_of_the_baselines_other_days(tmp_path: Path) -> None:
    """Its steps of 0.25 s are 50 ms shorter than those beside them, and longer than the baseline's of both days."""
    analysis = two_days(tmp_path, later_s=0.3, ckpt_s=0.25)
    ckpt = analysis.variants[2]
    assert ckpt.compile is not None
    assert ckpt.compile.break_even_step == 20  # 0.98 s / 0.05 s, rounded up
    (gain,) = (finding for finding in analysis.findings if (finding.id, finding.variant) == ("variant.faster", "ckpt"))
    assert gain.gain_s == pytest.approx(0.05)


def test_the_trade_off_says_that_it_sets_days_side_by_side(tmp_path: Path) -> None:
    days = two_days(tmp_path, later_s=0.3)
    peak = make_measurement(1e6, "bytes", "x")
    variants = tuple(msgspec.structs.replace(variant, peak_allocated=peak) for variant in days.variants)
    analysis = msgspec.structs.replace(days, variants=variants)
    for sessions, said in ((days.sessions, True), (days.sessions[:1], False)):
        made = build_document(msgspec.structs.replace(analysis, sessions=sessions))
        chart = blocks(made)["pareto"]
        assert isinstance(chart, Chart)
        assert ("different sessions" in chart.caption) is said


def test_days_that_were_alike_need_no_word(tmp_path: Path) -> None:
    assert shifts(two_days(tmp_path, later_s=0.1)) == []
