"""What lies in a folder is told by one file in it."""

from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import get_type_hints

import pytest

from perfkit.analysis.pipeline.load_side import load_side
from perfkit.core.errors import RunFormatError, UsageError
from perfkit.store.listing import list_runs
from perfkit.store.report_kinds import REPORT_KINDS, ReportKind, find_kind
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.memory.memory_document import build_document as of_memory
from perfkit_reports.subjects.registry import build_document, load_document
from perfkit_reports.subjects.trace.trace_document import build_document as of_traces
from tests.fixtures import sample_analysis, sample_loops, sample_memory_analysis, sample_trace_analysis
from tests.fixtures.suites import record, write_suite

NAMES = [kind.name for kind in REPORT_KINDS]


@pytest.mark.parametrize("kind", REPORT_KINDS, ids=NAMES)
def test_each_kind_of_folder_is_found_listed_read_and_drawn(kind: ReportKind, tmp_path: Path) -> None:
    (tmp_path / kind.marker).write_text("{}")
    assert find_kind(tmp_path) == kind
    assert [item.kind for item in list_runs(tmp_path)] == [kind.name]
    assert get_type_hints(resolve_name(kind.reader))["return"].subject == kind.name
    with pytest.raises(RunFormatError):
        load_document(tmp_path)
    assert find_spec(f"perfkit_reports.subjects.{kind.name}.{kind.name}_document") is not None


@pytest.mark.parametrize("kind", [kind for kind in REPORT_KINDS if kind.noun], ids=lambda kind: kind.name)
def test_what_is_no_run_is_not_compared(kind: ReportKind, tmp_path: Path) -> None:
    (tmp_path / kind.marker).write_text("{}")
    with pytest.raises(UsageError, match=kind.noun):
        load_side(str(tmp_path))


def test_no_two_kinds_share_a_name_or_a_marker() -> None:
    assert len({*NAMES, *(kind.marker for kind in REPORT_KINDS)}) == 2 * len(REPORT_KINDS)


def test_a_plan_in_a_suite_is_a_part_of_it(tmp_path: Path) -> None:
    folder = write_suite(tmp_path / "suite", {"baseline": [record(0.1)]})
    (folder / "plan.json").write_text("{}")
    assert [item.kind for item in list_runs(folder)] == ["suite"]


def test_attached_loops_are_drawn_as_loops() -> None:
    assert "watched" in [section.id for section in build_document(sample_loops.alone()).sections]
    assert "watched" not in [section.id for section in build_document(sample_analysis.realistic()).sections]


def test_a_suite_is_analysed_and_reports_are_read_back(tmp_path: Path) -> None:
    assert load_document(write_suite(tmp_path / "suite", {"baseline": [record(0.1)]})).kind == "suite"
    for told in (of_traces(sample_trace_analysis.alone()), of_memory(sample_memory_analysis.alone())):
        write_document(told, tmp_path / told.kind)
        again = load_document(tmp_path / told.kind)
        assert (again.kind, again.headline, list(again.raw)) == (told.kind, told.headline, list(told.raw))


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match=r"suite\.json"):
        load_document(tmp_path)
