"""Files in the folder of a finished run, for trackers to take."""

from pathlib import Path

from perfkit.core.errors import PerfkitError
from perfkit.store.summary import REPORT_FILE


def find_report(folder: Path) -> Path:
    """The absolute path of the report. Raises a `PerfkitError` if there is none."""
    path = (folder / REPORT_FILE).absolute()
    if not path.is_file():
        raise PerfkitError(f"{path}: no report to log; `perfkit report {folder}` writes it")
    return path


def find_figures(folder: Path) -> dict[str, Path]:
    """The figures that were drawn, `roofline` and so on, in the order of their names."""
    return {path.stem: path for path in sorted((folder / "figures").glob("*.png"))}
