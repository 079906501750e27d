"""Explains failures on fake tensors: the op, its module, and the remedy."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from perfkit.core.errors import PerfkitError, UnavailableError
from perfkit.core.texts.error_text import cap_line
from perfkit.cost.torch_dispatch import OpOverload
from perfkit.plan.rehearsal.module_locator import ModuleLocator
from perfkit.techniques.base.technique import Technique, explain_refusal

_NEEDS_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
_UNSUPPORTED = (UnsupportedOperatorException, UnsupportedFakeTensorException)
_NO_FAKE_OF_ITS_OWN = re.compile(r"no fake impl registered")  # torch's message for a custom op in Python
_REMEDY = "measure it with perfkit bench"

# Parts of perfkit that belong to the user's program: models and techniques.
_OF_THE_PROGRAM = ("perfkit.techniques.", "perfkit.workloads.")


@contextmanager
def name_failures(places: ModuleLocator, techniques: Sequence[Technique]) -> Iterator[None]:
    """What the model, its workload or a technique fails with on tensors without contents is an `UnavailableError`, one
    line; `techniques` know what they cannot go with. What fails in perfkit itself is raised as it is.
    """
    with _silence_log(fake_tensor.log):
        try:
            yield
        except PerfkitError:
            raise
        except Exception as error:
            frames = list(_walk_frames(error))
            told = explain_refusal(error, techniques)
            if not told and _is_ours(error, frames[-1]):
                raise
            raise UnavailableError(
                told or _describe_failure(error, _find_op(error, frames), places.locate_frames(frames))
            ) from error


def _is_ours(error: Exception, frame: FrameType) -> bool:
    """True if an error raised in this frame is perfkit's own fault.

    torch's refusals are not: perfkit's modes and kernels call ops with the model's arguments.
    """
    module: str = frame.f_globals.get("__name__", "")
    own = module.startswith("perfkit.") and not module.startswith(_OF_THE_PROGRAM)
    return own and not isinstance(error, RuntimeError)


@contextmanager
def _silence_log(log: logging.Logger) -> Iterator[None]:
    """Silence torch's log of failing fake kernels."""
    log.disabled, before = True, log.disabled
    try:
        yield
    finally:
        log.disabled = before


def _describe_failure(error: Exception, op: str, place: str) -> str:
    where = " in ".join(filter(None, (op, place))) or "the step"
    if isinstance(error, _NEEDS_VALUES):
        return f"{where} needs tensor values, which a plan does not have: {_REMEDY}"
    message = " ".join(str(error).split())
    if isinstance(error, _UNSUPPORTED) or _NO_FAKE_OF_ITS_OWN.search(message):
        return f"{where} has no fake kernel: add one with torch.library.register_fake, or {_REMEDY}"
    error_name = f"{type(error).__name__}: {cap_line(message.rstrip('.'))}"
    return f"{where} fails on fake tensors, {error_name}; check whether perfkit bench runs it"


def _find_op(error: Exception, frames: Sequence[FrameType]) -> str:
    """The failed op; empty if none was called."""
    named: Any = getattr(error, "func", None) or next(iter(error.args), None)
    if isinstance(named, OpOverload):
        return str(named)
    dispatched = (frame.f_locals.get("func") for frame in frames if frame.f_code.co_name == "__torch_dispatch__")
    called = [op for op in dispatched if op is not None]
    return str(called[-1]) if called else ""


def _walk_frames(error: Exception) -> Iterator[FrameType]:
    """The frames of an error's traceback, innermost last."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
