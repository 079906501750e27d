"""What a suite just measured comes to, once ceilings that it refuted are measured again."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.suite import Analysis


def analysed(folder: Path, *, calibrate: bool, console: "Console") -> "Analysis":
    """The analysis of a suite of this machine; a calibration that it takes is shown line by line."""
    from perfkit.remeasure import analyse_and_remeasure
    from perfkit_cli.lines import show_lines

    with show_lines(console) as tell:
        return analyse_and_remeasure(folder, calibrate=calibrate, progress=tell)
