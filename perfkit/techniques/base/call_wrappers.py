"""Wraps the calls of a module, in a way that its copies, pickles and compiled forms know nothing of."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

from torch import nn

# What calling a module calls, where it was compiled in place (`nn.Module._wrapped_call_impl`). torch leaves it out of
# copies and pickles of modules, and does not look at it when it compiles, scripts or exports one: unlike hooks.
_CALL = "_compiled_call_impl"

Call = Callable[..., Any]


class _CallWrapper(functools.partial[Any]):
    """Is called for a module. In copies of a module's attributes that torch does not make it is None, as before.

    `before` is what it stands for; None for a module's usual call.
    """

    before: Call | None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def wrap_calls(module: nn.Module, wrapped: Callable[[Call], Call]) -> Callable[[], None]:
    """Have every call of `module` be one of `wrapped(original call)`; returns what takes it away again, and keeps no
    module alive."""
    # Not via its attributes: wrappers and scripted modules forward these to what they hold.
    attributes = module.__dict__
    before = attributes.get(_CALL)
    standing = _CallWrapper(wrapped(module._call_impl if before is None else before))
    standing.before = before
    attributes[_CALL] = standing
    return functools.partial(_take_away, weakref.ref(module), weakref.ref(standing))


def _take_away(module: weakref.ref[nn.Module], wrapper: weakref.ref[_CallWrapper]) -> None:
    standing, wrapped = wrapper(), module()
    if standing is None or wrapped is None:
        return
    before, attributes = standing.before, wrapped.__dict__
    if attributes.get(_CALL) is not standing:  # the module was compiled in place since
        return
    if before is None:
        del attributes[_CALL]
    else:
        attributes[_CALL] = before


def is_compiled_in_place(module: nn.Module) -> bool:
    """True if a module was compiled (`module.compile()`), unless its calls were wrapped since."""
    call = module._compiled_call_impl
    return call is not None and not isinstance(call, _CallWrapper)
