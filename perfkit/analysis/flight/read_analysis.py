"""Reads the analysis of a report on flight recorders back."""

from pathlib import Path

from perfkit.analysis.model.flight import FlightAnalysis
from perfkit.files import read_json
from perfkit.store.summary import FLIGHT_REPORT_FILE


def read_flight_analysis(folder: Path) -> FlightAnalysis:
    """What `perfkit analyze` wrote to a folder. A `RunFormatError` names a file that is not it."""
    return read_json(folder / FLIGHT_REPORT_FILE, FlightAnalysis, remedy="read the dumps again")
