"""Option values: amounts of memory, and names that propose the nearest valid one. Used as click callbacks."""

import re
from collections.abc import Callable, Iterable

import click

from perfkit.errors import UsageError, unknown_name

Callback = Callable[[click.Context, click.Parameter, str | None], str | None]

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def amount(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:  # noqa: ARG001
    """Bytes from an amount of memory in powers of 1024: `6GiB`, `512M`, `1048576`."""
    if value is None:
        return None
    match = _AMOUNT.fullmatch(value.strip())
    if match is None:
        raise UsageError(
            f"{param.opts[-1]}: {value!r} is no amount of memory: expected a number and a unit, such as 6GiB"
        )
    number, unit = match.groups()
    return int(float(number) * 1024 ** _POWERS[unit.upper()])


def one_of(kind: str, names: Iterable[str]) -> Callback:
    """Accepts one of `names`."""
    known = tuple(names)

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
        if value is not None and value not in known:
            raise unknown_name(kind, value, known)
        return value

    return check
