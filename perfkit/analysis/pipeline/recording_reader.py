"""Reads back the analysis of a memory report."""

from pathlib import Path

from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.core.files import read_json
from perfkit.store.summary import MEMORY_REPORT_FILE


def read_memory_analysis(folder: Path) -> MemoryAnalysis:
    """Read the analysis that `perfkit memory` wrote to a folder. A `RunFormatError` names any other file."""
    return read_json(folder / MEMORY_REPORT_FILE, MemoryAnalysis, remedy="analyze the recording again")
