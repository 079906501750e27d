"""Reads back the analysis of a flight recorder report."""

from pathlib import Path

from perfkit.analysis.model.flight import FlightAnalysis
from perfkit.core.files import read_json
from perfkit.store.summary import FLIGHT_REPORT_FILE


def read_flight_analysis(folder: Path) -> FlightAnalysis:
    """Read the analysis that `perfkit analyze` wrote to a folder. A `RunFormatError` names any other file."""
    return read_json(folder / FLIGHT_REPORT_FILE, FlightAnalysis, remedy="read the dumps again")
