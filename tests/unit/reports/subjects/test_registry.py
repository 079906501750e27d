"""What lies in a folder is told by one file in it."""

from pathlib import Path

import pytest

from perfkit.core.errors import RunFormatError
from perfkit.store.listing import KINDS
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.memory.memory_document import build_document as of_memory
from perfkit_reports.subjects.registry import SUBJECTS, load_document
from perfkit_reports.subjects.trace.trace_document import build_document as of_traces
from tests.fixtures import sample_memory_analysis, sample_trace_analysis
from tests.fixtures.suites import record, write_suite


def test_whatever_is_listed_can_be_drawn_again() -> None:
    assert set(SUBJECTS) == set(KINDS)


def test_a_suite_is_analysed_and_reports_are_read_back(tmp_path: Path) -> None:
    assert load_document(write_suite(tmp_path / "suite", {"baseline": [record(0.1)]})).kind == "suite"
    for told in (of_traces(sample_trace_analysis.alone()), of_memory(sample_memory_analysis.alone())):
        write_document(told, tmp_path / told.kind)
        again = load_document(tmp_path / told.kind)
        assert (again.kind, again.headline, list(again.raw)) == (told.kind, told.headline, list(told.raw))


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match=r"suite\.json"):
        load_document(tmp_path)
