"""Times parts of a training script from outside, by other means than perfkit: for `check_goodput`.

Replaced before perfkit replaces anything: what fetches a batch, and `torch.save`. In a copy of the script the functions
that evaluate are decorated, and its first and last line call `begin` and `end`. Compilation is dynamo's own sum.
"""

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

RESULT = "STOPWATCH_RESULT"

_seconds = {"startup": 0.0, "data": 0.0, "evaluation": 0.0, "checkpoint": 0.0, "compilation": 0.0, "wall": 0.0}
_state: dict[str, Any] = {"began": 0.0, "evaluating": False, "fetching": False, "updates": 0}


def install() -> None:
    """Time fetches, files and the first update from now on."""
    _BaseDataLoaderIter.__next__ = _time_fetch(_BaseDataLoaderIter.__next__)  # type: ignore[method-assign]
    DataLoader.__iter__ = _time_fetch(DataLoader.__iter__)  # type: ignore[method-assign]
    torch.save = _time_file(torch.save)
    register_optimizer_step_post_hook(_note_update)


def begin() -> None:
    """The script begins."""
    _state["began"] = time.perf_counter()


def end() -> None:
    """The script has ended: write what was timed to the file that the environment names."""
    _seconds["wall"] = time.perf_counter() - _state["began"]
    _seconds["compilation"] = _get_compiled_s()
    Path(os.environ[RESULT]).write_text(json.dumps(_seconds | {"updates": _state["updates"]}))


def time_evaluation(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` evaluates the model; before the first update it is part of the start-up."""

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began, compiled_s, _state["evaluating"] = time.perf_counter(), _get_compiled_s(), bool(_state["updates"])
        try:
            return function(*args, **kwargs)
        finally:
            if _state["evaluating"]:
                took_s = time.perf_counter() - began - (_get_compiled_s() - compiled_s)
                _seconds["evaluation"] += took_s
            _state["evaluating"] = False

    return timed


def _time_fetch(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if _state["evaluating"] or _state["fetching"]:
            return function(*args, **kwargs)
        began, _state["fetching"] = time.perf_counter(), True
        try:
            return function(*args, **kwargs)
        finally:
            _seconds["data"] += time.perf_counter() - began
            _state["fetching"] = False

    return timed


def _time_file(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            _seconds["checkpoint"] += time.perf_counter() - began

    return timed


def _note_update(*_: Any) -> None:
    _state["updates"] += 1
    if _state["updates"] == 1:
        apart_s = _seconds["data"] + _seconds["checkpoint"] + _get_compiled_s()
        _seconds["startup"] = time.perf_counter() - _state["began"] - apart_s


def _get_compiled_s() -> float:
    if "torch._dynamo.utils" not in sys.modules:
        return 0.0
    return float(torch._dynamo.utils.calculate_time_spent().get("total_wall_time", 0.0))
