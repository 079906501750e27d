"""Silences libraries' messages about fake tensors during a plan."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Libraries whose own code warns, which users cannot change.
_LIBRARIES = r"(torch|torchao|lightning|bitsandbytes)\b"


@contextmanager
def hide_library_remarks() -> Iterator[None]:
    """Log only errors inside this context, and hide these libraries' warnings about their own code.

    Lightning reports devices and tips, torchao and bitsandbytes missing extensions, and torch warns about fake tensors:
    none of it concerns a plan.
    """
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=_LIBRARIES)
        logging.disable(max(before, logging.WARNING))
        try:
            yield
        finally:
            logging.disable(before)


def silence_kineto() -> None:
    """Silence Kineto's messages. Call it before torch is imported."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
