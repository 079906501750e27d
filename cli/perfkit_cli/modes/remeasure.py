"""Analyzes a suite just measured, and measures the ceilings again that it exceeded."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.suite import Analysis


def analyze_measured_suite(folder: Path, *, calibrate: bool, console: "Console") -> "Analysis":
    """The analysis of a suite of this machine; a new calibration shows its progress line by line."""
    from perfkit.suites.remeasure import analyze_and_remeasure
    from perfkit_cli.output.live_lines import show_lines

    with show_lines(console) as tell:
        return analyze_and_remeasure(folder, calibrate=calibrate, progress=tell)
