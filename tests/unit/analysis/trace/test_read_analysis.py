import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.idle import ELSEWHERE
from perfkit.analysis.trace.read_analysis import read_trace_analysis
from perfkit.errors import RunFormatError
from perfkit.files import write_json
from perfkit.store.summary import TRACE_REPORT_FILE
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.old_traces import in_format_2
from tests.fixtures.rank_traces import gap


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    write_json(tmp_path / TRACE_REPORT_FILE, sample.realistic())
    assert read_trace_analysis(tmp_path) == sample.realistic()


def test_a_comparison_of_format_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / TRACE_REPORT_FILE
    write_json(path, sample.realistic())
    old = old_analysis(json.loads(path.read_text()))
    old["difference"] |= {"before_split": [], "after_split": []}
    path.write_text(json.dumps(old | {"schema_version": 2}))
    with pytest.raises(RunFormatError, match="before_split"):
        read_trace_analysis(tmp_path)
    path.write_text(json.dumps(old | {"schema_version": 1}))
    assert_reads(tmp_path)


def test_dots_of_format_2_are_read_as_rows(tmp_path: Path) -> None:
    path = tmp_path / TRACE_REPORT_FILE
    write_json(path, sample.realistic())
    old = old_analysis(json.loads(path.read_text()))
    path.write_text(json.dumps(old))
    with pytest.raises(RunFormatError, match="`kind`"):
        read_trace_analysis(tmp_path)
    path.write_text(json.dumps(old | {"schema_version": 2}))
    assert_reads(tmp_path)


def test_gaps_of_format_3_are_those_in_which_the_host_did_something_else(tmp_path: Path) -> None:
    path = tmp_path / TRACE_REPORT_FILE
    first, *rest = sample.realistic().traces
    written = replace(sample.realistic(), traces=(replace(first, gaps=(gap(0.1),)), *rest))
    write_json(path, written)
    old = json.loads(path.read_text())
    for row in old["traces"][0]["gaps"]:
        del row["cause"], row["own"]
    path.write_text(json.dumps(old))
    with pytest.raises(RunFormatError, match="cause"):
        read_trace_analysis(tmp_path)
    path.write_text(json.dumps(old | {"schema_version": 3}))
    (row,) = read_trace_analysis(tmp_path).traces[0].gaps
    assert (row.cause, row.own, row.seconds) == (ELSEWHERE, "", 0.1)


def old_analysis(analysis: dict[str, Any]) -> dict[str, Any]:
    before = in_format_2(analysis["difference"]["before_trace"])
    return analysis | {
        "traces": [in_format_2(trace) for trace in analysis["traces"]],
        "difference": analysis["difference"] | {"before_trace": before},
    }


def assert_reads(folder: Path) -> None:
    """All that was written, but what a dot of that format did not hold."""
    found, expected = read_trace_analysis(folder), sample.realistic()
    for mine, theirs in zip(found.traces, expected.traces, strict=True):
        assert replace(mine, summary=()) == replace(theirs, summary=())
        assert [(dot.kind, dot.name, dot.achieved) for dot in mine.points] == [
            (dot.kind, dot.name, dot.achieved) for dot in theirs.points
        ]
    assert (found.difference is None, found.findings) == (False, expected.findings)
