"""Checks whether given parameters fit a user's function, before anything is run."""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from perfkit.core.errors import UnknownParameterError, UsageError, make_unknown_name_error
from perfkit.core.spec import ParamValue, format_param_value
from perfkit.core.texts.param_texts import read_param_value, unquote

_PLAIN = (bool, int, float, str, type(None))
_LISTS = (list, tuple, Sequence)


def can_take_one(function: Callable[..., object]) -> bool:
    """True if a function takes one positional argument, or its signature is unknown."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of some that are written in C
        return True
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def fit_arguments(function: Callable[..., object], params: Mapping[str, ParamValue], name: str) -> dict[str, Any]:
    """Convert the arguments of `function`, called `name`, to the types of its signature.

    Mistakes are found before the function is called, so that a TypeError from inside its code stays the user's. The
    type is the annotation if it consists of bool, int, float, str, None, literals, and lists or tuples of them; without
    one, a number if the default is a number. Anything else is passed unchanged. Raises a `UsageError` that names the
    parameter.
    """
    signature = inspect.signature(function)
    accepted = {
        parameter.name: parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        for key in params:
            if key not in accepted and not accepted:
                raise UnknownParameterError(key, f"workload {name!r} takes no parameters, got {key!r}")
            if key not in accepted:
                raise UnknownParameterError(key, str(make_unknown_name_error(f"parameter of {name}", key, accepted)))
    try:
        signature.bind(**params)
    except TypeError as error:
        raise UsageError(f"workload {name!r}: {error}; give it as {name}:key=value") from None
    hints = _get_hints(function)
    return {
        key: _fit_argument(name, accepted[key], hints, value) if key in accepted else read_param_value(value)
        for key, value in params.items()
    }


def _fit_argument(name: str, parameter: inspect.Parameter, hints: Mapping[str, Any], value: ParamValue) -> Any:
    kind = hints.get(parameter.name, _infer_kind(parameter.default))
    if kind is None or not _is_plain(kind):
        return read_param_value(value)
    if kind is str:
        return format_param_value(unquote(value))  # `version=2` was meant as text
    try:
        fitting = msgspec.convert(read_param_value(value) if _has_lists(kind) else unquote(value), kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"workload {name!r}: {parameter.name}={format_param_value(value)}: {error}") from None
    return fitting


def _get_hints(function: Callable[..., object]) -> dict[str, Any]:
    """The annotations of a function; none where they name what exists for type checkers only."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError):
        return {}


def _infer_kind(default: object) -> Any:
    """Infer the type of a parameter without an annotation: bool or a number by its default; else None."""
    if isinstance(default, bool):
        return bool
    return int | float if isinstance(default, int | float) else None


def _is_plain(kind: Any) -> bool:
    if kind in _PLAIN or get_origin(kind) is Literal:
        return True
    if get_origin(kind) is Annotated:
        return _is_plain(get_args(kind)[0])
    if get_origin(kind) in _LISTS:
        return all(item is Ellipsis or _is_plain(item) for item in get_args(kind))
    return kind in _LISTS or (get_origin(kind) in (Union, types.UnionType) and all(map(_is_plain, get_args(kind))))


def _has_lists(kind: Any) -> bool:
    """True for a type of lists, or one that such a type is part of."""
    return kind in _LISTS or get_origin(kind) in _LISTS or any(map(_has_lists, get_args(kind)))
