"""Keeping libraries' remarks on tensors without contents out of what a plan prints."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Of their own code, where a user's model can change nothing.
_LIBRARIES = r"(torch|torchao|lightning|bitsandbytes)\b"


@contextmanager
def hide_library_remarks() -> Iterator[None]:
    """While entered only errors are logged, and these libraries do not warn of their own code; others do.

    Lightning advertises and tells what it found, torchao and bitsandbytes what they could not load, and torch warns of
    fake tensors: a step that is gone through without being trained is no occasion for it.
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
    """Silences Kineto's messages, which are no part of a plan. Call it before torch is imported."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
