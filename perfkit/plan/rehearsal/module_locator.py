"""Locates a program's frames in a model: by qualified module name, else by line."""

from collections.abc import Sequence
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

import perfkit
from perfkit.instruments.training.trained_models import unwrap_name

_NOT_THE_USERS = (Path(torch.__file__).parent, Path(perfkit.__file__).parent)


class ModuleLocator:
    """Names of the modules of a `model`, which is None until it is built."""

    def __init__(self) -> None:
        self.model: nn.Module | None = None

    def locate_frames(self, frames: Sequence[FrameType]) -> str:
        """The innermost known place of these frames: `h.3.mlp (MLP)` or `train.py:17`; empty for none."""
        return self.module(frames) or _format_line(frames)

    def module(self, frames: Sequence[FrameType]) -> str:
        """The innermost module of the model in these frames; empty for none."""
        if self.model is None:
            return ""
        for frame in reversed(frames):
            owner = _get_owner(frame)
            name = _get_qualified_name(owner, self.model) if isinstance(owner, nn.Module) else None
            if name is not None:
                kind = type(owner).__name__
                return f"{name} ({kind})" if name else kind
        return ""


def _get_owner(frame: FrameType) -> Any:
    """The object whose method a frame is of.

    Before Python 3.13 a running frame keeps what it was asked for: tensors that its function has dropped since.
    """
    known = frame.f_locals
    owner = known.get("self")
    if frame.f_code.co_flags & CO_OPTIMIZED and isinstance(known, dict):  # a function's copy, not a module's names
        known.clear()
    return owner


def _get_qualified_name(module: nn.Module, model: nn.Module) -> str | None:
    """A module's last name in a model, "" for the model itself; None if it is not part of it."""
    names = [name for name, other in model.named_modules(remove_duplicate=False) if other is module]
    return unwrap_name(names[-1]) if names else None


def _format_line(frames: Sequence[FrameType]) -> str:
    for frame in reversed(frames):
        file = Path(frame.f_code.co_filename)
        if file.is_file() and not any(file.is_relative_to(folder) for folder in _NOT_THE_USERS):
            return f"{file.name}:{frame.f_lineno}"
    return ""
