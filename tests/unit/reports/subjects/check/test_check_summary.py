import re
from pathlib import Path

import msgspec

from perfkit.check.judge.result import Check
from perfkit.core.files import read_json
from perfkit.core.record.quantity import Unknown, get_value
from perfkit.store.listing import list_runs
from perfkit.store.suite_state import SuiteState
from perfkit.store.summary import SUMMARY_FILE, ReportSummary
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.check.check_document import build_document
from perfkit_reports.subjects.check.check_summary import summarize_check
from perfkit_reports.view.rows import build_row
from tests.fixtures import sample_checks
from tests.fixtures.figures import list_figures


def test_any_check_has_one(check: Check, tmp_path: Path) -> None:
    write_document(build_document(check), tmp_path)
    summary = read_json(tmp_path / SUMMARY_FILE, ReportSummary)
    assert summary == summarize_check(check)
    assert (summary.kind, summary.verdict) == ("check", check.verdict)


def test_a_check_is_listed_with_its_verdict_and_the_figures_after(tmp_path: Path) -> None:
    check = sample_checks.one_of_two()
    write_document(build_document(check), tmp_path / "first")
    (listed,) = list_runs(tmp_path)
    assert (listed.kind, listed.state, listed.verdict, listed.reported) == ("check", SuiteState.OK, "fail", True)
    assert re.findall(r"\((\w+)\)", listed.name) == ["4f2a9c1", "9c1e77a"]
    assert {"1", "2"} <= {*list_figures(listed.reason)}
    after = {each.quantity: each.after for each in check.variants[0].quantities}
    assert (listed.figures.subject, get_value(listed.figures.step)) == ("gpt baseline", after["step_time"])
    assert get_value(listed.figures.peak) == after["peak_allocated"]
    shown = build_row(listed)
    assert (shown["status"], shown["tone"]) == ("fail", "bad")


def test_what_is_inconclusive_is_neither_good_nor_bad(tmp_path: Path) -> None:
    write_document(build_document(sample_checks.too_noisy()), tmp_path)
    (listed,) = list_runs(tmp_path)
    assert (build_row(listed)["status"], build_row(listed)["tone"]) == ("inconclusive", "unsure")


def test_a_check_without_figures_says_so() -> None:
    summary = summarize_check(msgspec.structs.replace(sample_checks.passing(), variants=()))
    assert isinstance(summary.figures.step, Unknown)
    assert summary.figures.subject == ""
