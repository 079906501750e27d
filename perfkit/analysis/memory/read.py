"""Reads the analysis of a report on memory back."""

from pathlib import Path

from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.files import read_json
from perfkit.store.summary import MEMORY_REPORT_FILE


def read_memory_analysis(folder: Path) -> MemoryAnalysis:
    """What `perfkit memory` wrote to a folder. A `RunFormatError` names a file that is not it."""
    return read_json(folder / MEMORY_REPORT_FILE, MemoryAnalysis, remedy="analyze the recording again")
