"""Reads stored advice."""

from pathlib import Path

from perfkit.core.files import read_json
from perfkit.plan.advise.advice import Advice
from perfkit.store.summary import ADVICE_FILE


def read_advice(folder: Path) -> Advice:
    """Read the advice that `perfkit advise` wrote to a folder; a `RunFormatError` where it is damaged or too new."""
    return read_json(folder / ADVICE_FILE, Advice, remedy="run perfkit advise again")
