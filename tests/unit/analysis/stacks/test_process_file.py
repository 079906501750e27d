"""The file that `perfkit attach PID` writes."""

from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.pipeline.process_stacks import analyze_process, read_process_analysis
from perfkit.core.errors import OlderFormatError
from perfkit.store.summary import PROCESS_FILE
from tests.fixtures.spied_process import facts, threads


def test_an_older_format_is_refused(tmp_path: Path) -> None:
    today = analyze_process(facts(), threads())
    path = tmp_path / PROCESS_FILE
    path.write_bytes(msgspec.json.encode(today))
    assert read_process_analysis(tmp_path) == today
    path.write_bytes(msgspec.json.encode({**msgspec.to_builtins(today), "schema_version": 1}))
    with pytest.raises(OlderFormatError, match="format 1"):
        read_process_analysis(tmp_path)
