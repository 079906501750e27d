"""Reading a comparison back."""

from pathlib import Path

from perfkit.analysis.model.comparison import Comparison
from perfkit.core.files import read_json
from perfkit.store.summary import COMPARISON_FILE


def read_comparison(folder: Path) -> Comparison:
    """Read the comparison that `perfkit compare` wrote to a folder; `RunFormatError` if damaged or too new."""
    return read_json(folder / COMPARISON_FILE, Comparison, remedy="compare again")
