"""The options of a search that goes on: those it began with, and what is given again."""

from msgspec.structs import fields, replace

from perfkit.check.bisect.result import BisectOptions
from perfkit.core.errors import UsageError

# What may change between two parts of a search: the time for a candidate, not what is compared.
_CHANGEABLE = frozenset({"budget"})
_NOT_GIVEN = (None, False, ())
_NAMES = {"thresholds": "threshold"}


def resume_options(begun: BisectOptions, given: BisectOptions) -> BisectOptions:
    """The options that a search began with, with those given again that may change.

    Raises:
        UsageError: an option is given again with another value, so that earlier verdicts do not answer it.
    """
    for field in fields(BisectOptions):
        old, new = getattr(begun, field.name), getattr(given, field.name)
        if new in _NOT_GIVEN or new == old or field.name in _CHANGEABLE:
            continue
        option = f"--{_NAMES.get(field.name, field.name)}"
        raise UsageError(
            f"the search began with {_format_option(option, old)}, and cannot go on with "
            f"{_format_option(option, new)}: omit {option}, or start a new search without --resume",
            id="usage.conflict",
        )
    return replace(begun, budget=given.budget or begun.budget)


def _format_option(option: str, value: object) -> str:
    if value in _NOT_GIVEN:
        return f"no {option}"
    if value is True:
        return option
    values = value if isinstance(value, tuple) else (value,)
    return " ".join(f"{option} {each}" for each in values)
