"""The search for the largest batch, as the report lists its trials."""

from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.store.layout import BatchSearch, BatchTrial
from perfkit_reports.document.blocks import Table
from perfkit_reports.subjects.suite.sizes import build_sections
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, write_suite

TRIALS = (
    BatchTrial(size=8, fits=True, peak_bytes=2.0**30, seconds=5.0),
    BatchTrial(size=16, fits=False, reason="not run: 2.00 GiB expected"),
    BatchTrial(size=12, fits=None, seconds=1.0, reason="failed: ValueError"),
)


def listed(folder: Path, found: str | None) -> Table:
    searched = BatchSearch(
        requested_variant="batch", selected_variant=found, limit_bytes=2.0**31, margin=0.1, max_size=64, trials=TRIALS
    )
    analysis = replace(analyze_suite(write_suite(folder, {"baseline": [record(0.1)]})), searches=(searched,))
    (section,) = build_sections(analysis)
    (table,) = section.blocks
    assert isinstance(table, Table)
    return table


def test_each_trial_says_whether_it_fits_or_why_that_is_not_known(tmp_path: Path) -> None:
    table = listed(tmp_path, "batch:size=8")
    assert list_figures(table.title) == ["8"]
    rows = [[column.cell(trial) for column in table.columns] for trial in table.rows]
    assert [[cell.text for cell in row] for row in rows] == [
        ["8 samples", "yes", "1.00 GiB", "5.00 s"],
        ["16 samples", "no", "n/a", "n/a"],
        ["12 samples", "n/a", "n/a", "1.00 s"],
    ]
    assert [row[1].detail or row[1].reason for row in rows] == ["", TRIALS[1].reason, TRIALS[2].reason]


def test_a_search_may_find_none(tmp_path: Path) -> None:
    assert listed(tmp_path, None).title.endswith("for batch")
