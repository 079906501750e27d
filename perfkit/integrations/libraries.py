"""Trackers' libraries, imported when they are used."""

import importlib
from typing import Any

from perfkit.missing import missing


def library(module: str, *, package: str, extra: str) -> Any:
    """The module. Where its package is not installed, an `UnavailableError` says what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing(package, f"'perfkit[{extra}]'", error) from None
