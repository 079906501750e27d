import json
from pathlib import Path

import pytest

from perfkit.analysis.trace.read import read_trace_analysis
from perfkit.errors import RunFormatError
from perfkit.files import write_json
from perfkit.store.summary import TRACE_REPORT_FILE
from tests.fixtures import sample_trace_analysis as sample


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    write_json(tmp_path / TRACE_REPORT_FILE, sample.realistic())
    assert read_trace_analysis(tmp_path) == sample.realistic()


def test_a_comparison_of_format_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / TRACE_REPORT_FILE
    write_json(path, sample.realistic())
    old = json.loads(path.read_text())
    assert old["difference"] is not None
    old["difference"] |= {"before_split": [], "after_split": []}
    path.write_text(json.dumps(old))
    with pytest.raises(RunFormatError, match="before_split"):
        read_trace_analysis(tmp_path)
    path.write_text(json.dumps(old | {"schema_version": 1}))
    assert read_trace_analysis(tmp_path) == sample.realistic()
