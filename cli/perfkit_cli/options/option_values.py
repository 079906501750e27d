"""Parses option values: amounts of memory, times, and names with the nearest valid one proposed. Click callbacks."""

from collections.abc import Callable, Iterable

import click

from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.core.parse_units import parse_amount
from perfkit.store.price import Price, parse_price

Callback = Callable[[click.Context, click.Parameter, str | None], str | None]


def parse_memory_option(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:  # noqa: ARG001
    """Bytes from an amount of memory: `6GiB`, `512MB`."""
    if value is None:
        return None
    return int(_parse_option(value, "bytes", param))


def parse_duration_option(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001
    """Seconds from a time: `90s`, `5min`."""
    if value is None:
        return None
    return _parse_option(value, "s", param)


def parse_price_option(ctx: click.Context, param: click.Parameter, value: str | None) -> Price | None:  # noqa: ARG001
    """Parse an hourly price: `2.49/h`, `$2.49/h`."""
    if value is None:
        return None
    try:
        return parse_price(value)
    except UsageError as error:
        raise UsageError(f"{param.opts[-1]}: {error}") from None


def require_images_option(ctx: click.Context, param: click.Parameter, value: bool) -> bool:  # noqa: ARG001
    """Refuse to write figures, before anything is analyzed, where the package that draws them is missing."""
    if value:
        from perfkit_reports.render.images import require_images

        require_images()
    return value


def parse_share_option(ctx: click.Context, param: click.Parameter, value: str) -> float:  # noqa: ARG001
    """A part of one from a percentage: `3%`, or `0.03`."""
    return _parse_option(value, "1", param)


def parse_counts_option(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:  # noqa: ARG001
    """Numbers from one on, each once: `1,2,8`; none where nothing is given."""
    if value is None:
        return ()
    written = [word.strip() for word in value.split(",")]
    if not all(word.isdecimal() and int(word) for word in written):
        raise UsageError(f"{param.opts[-1]}: {value!r}: expected whole numbers from 1, such as 1,2,8")
    return tuple(dict.fromkeys(map(int, written)))


def parse_part_option(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:  # noqa: ARG001
    """The number of a part, from 1, and the number of parts: `3/16`."""
    if value is None:
        return None
    number, _, count = (word.strip() for word in value.partition("/"))
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise UsageError(f"{param.opts[-1]}: {value!r}: expected a part and their number, such as 3/16")
    return int(number), int(count)


def parse_window_option(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, float] | None:  # noqa: ARG001
    """Two times, the first before the second, in seconds: `1.2s:1.25s`."""
    if value is None:
        return None
    first, _, last = value.partition(":")
    begin, end = _parse_option(first.strip(), "s", param), _parse_option(last.strip(), "s", param)
    if not 0 <= begin < end:
        raise UsageError(f"{param.opts[-1]}: {value!r}: expected two times, such as 1.2s:1.25s")
    return begin, end


def require_one_of(kind: str, names: Iterable[str]) -> Callback:
    """Accepts one of `names`."""
    known = tuple(names)

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
        if value is not None and value not in known:
            raise make_unknown_name_error(kind, value, known)
        return value

    return check


def _parse_option(value: str, unit: str, param: click.Parameter) -> float:
    try:
        return parse_amount(value, unit)
    except UsageError as error:
        raise UsageError(f"{param.opts[-1]}: {error}") from None
