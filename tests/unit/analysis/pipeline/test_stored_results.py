import json
from pathlib import Path

import pytest

from perfkit.analysis.pipeline.stored_results import read_trace_analysis
from perfkit.core.errors import OlderFormatError
from perfkit.core.files import write_json
from perfkit.store.summary import TRACE_REPORT_FILE
from tests.fixtures import sample_trace_analysis as sample


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    write_json(tmp_path / TRACE_REPORT_FILE, sample.realistic())
    assert read_trace_analysis(tmp_path) == sample.realistic()


def test_an_older_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / TRACE_REPORT_FILE
    write_json(path, sample.realistic())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 3}))
    with pytest.raises(OlderFormatError, match=r"format 3.*analyze"):
        read_trace_analysis(tmp_path)
