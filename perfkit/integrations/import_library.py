"""Trackers' libraries, imported when they are used."""

import importlib
from typing import Any

from perfkit.core.optional_deps import explain_import_error


def import_library(module: str, *, package: str, extra: str) -> Any:
    """The module. Where its package is not installed, an `UnavailableError` says what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise explain_import_error(package, f"'perfkit[{extra}]'", error) from None
