"""Calls back when torch.compile's compilers begin and end.

`torch._dynamo.callback` is private. It is there in every torch from 2.9 on: its handlers get an argument and are called
once for compilations within another, forward and backward. Without it compilations belong to what they interrupt.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from perfkit.instruments.compile_exclusion import exclude_from_compile

_MODULE = "torch._dynamo.callback"


def follow_compilations(begin: Callable[[str], None], end: Callable[[], None]) -> Callable[[], None]:
    """Call `begin` with its number (`0/1`) and `end` around each compilation from now on; returns what ends that.

    Dynamo is imported by the program's first `torch.compile`, not for this.
    """
    undo: list[Callable[[], None]] = []
    if _MODULE in sys.modules:
        undo.append(_register(begin, end))
    else:
        undo.append(_await_compile(lambda: undo.append(_register(begin, end))))

    def remove() -> None:
        while undo:
            undo.pop()()

    return remove


def _register(begin: Callable[[str], None], end: Callable[[], None]) -> Callable[[], None]:
    from torch._dynamo.callback import callback_handler  # not sooner: it takes seconds

    @exclude_from_compile
    def handle_begin(args: Any) -> None:
        begin(str(args.compile_id))

    @exclude_from_compile
    def handle_end(_args: Any) -> None:
        end()

    callback_handler.register_start_callback(handle_begin)
    callback_handler.register_end_callback(handle_end)

    def remove() -> None:
        # `torch._dynamo.callback.callback_handler.clear()` may have removed them.
        if handle_begin in callback_handler.start_callbacks:
            callback_handler.remove_start_callback(handle_begin)
        if handle_end in callback_handler.end_callbacks:
            callback_handler.remove_end_callback(handle_end)

    return remove


def _await_compile(register: Callable[[], None]) -> Callable[[], None]:
    """Call `register` before the program's first `torch.compile`."""
    original = torch.compile

    @functools.wraps(original)
    def compile_after_registering(*args: Any, **kwargs: Any) -> Any:
        remove()
        register()
        return original(*args, **kwargs)

    def remove() -> None:
        if torch.compile is compile_after_registering:
            torch.compile = original

    torch.compile = compile_after_registering
    return remove
