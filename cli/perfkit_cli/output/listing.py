"""Listings: one line for each thing that exists, with whether it can be used here and its parameters."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import click
import msgspec

from perfkit.core.spec import Struct


class ListedItem(Struct):
    """Something a user can name. `unavailable` is the reason it cannot be used on this machine, else None.

    `group` is its heading. `unavailable_choices` are parameter values that cannot be used here, such as
    `backend=liger`, with reasons. `describe_parameters` maps a name to its values, default and meaning in words. `when`
    says in a line when it helps, `paper` names its source. `broken` says why another package's object cannot be used at
    all.
    """

    name: str
    group: str = ""
    summary: str = ""
    parameters: dict[str, str] = {}
    unavailable: str | None = None
    unavailable_choices: dict[str, str] = {}
    needs: str = ""
    when: str = ""
    paper: str = ""
    broken: str | None = None


class TechniqueList(Struct):
    """The output of `perfkit techniques --json`."""

    techniques: tuple[ListedItem, ...]


class WorkloadList(Struct):
    """The output of `perfkit workloads --json`."""

    workloads: tuple[ListedItem, ...]


class ParameterInfo(NamedTuple):
    """A parameter in words; empty fields have no text."""

    name: str
    values: str
    default: str
    meaning: str


def show_listing(items: Sequence[ListedItem]) -> None:
    """Print the listing in aligned columns."""
    for line in align_columns([_build_row(item) for item in items]):
        click.echo(line)


def align_columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows of cells as lines: every column but the last is as wide as its widest cell."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        *cells, last = row
        yield "  ".join([cell.ljust(width) for cell, width in zip(cells, widths, strict=False)] + [last]).rstrip()


def describe_parameters(kind: type[Any]) -> dict[str, str]:
    """The parameters of a Struct in words: `{"dtype": "bf16|fp16 [bf16]"}`."""
    return {
        it.name: it.values + (f" [{it.default}]" if it.default else "") + (f" {it.meaning}" if it.meaning else "")
        for it in list_parameters(kind)
    }


def list_parameters(kind: type[Any]) -> list[ParameterInfo]:
    """The parameters of a Struct in the order of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        ParameterInfo(
            name=field.encode_name,
            values=_format_values(hints[field.name]),
            default="" if field.default in (msgspec.NODEFAULT, "") else _format_value(field.default),
            meaning=_find_meaning(hints[field.name]),
        )
        for field in msgspec.structs.fields(kind)
    ]


def list_choices(kind: type[Any], name: str) -> tuple[Any, ...]:
    """The values that a field of a Struct may take, where it is one of a few words."""
    hint = get_type_hints(kind)[name]
    return get_args(hint) if get_origin(hint) is Literal else ()


def _build_row(item: ListedItem) -> tuple[str, str, str]:
    if item.broken is not None:
        return (item.name, "broken", item.broken)
    takes = "; ".join(f"{name}={text}" for name, text in item.parameters.items())
    what = f"{item.summary} ({takes})" if takes else item.summary
    if item.unavailable is not None:
        return (item.name, "unavailable", f"{what}; unavailable: {item.unavailable}")
    return (item.name, f"needs {item.needs}" if item.needs else "available", what)


def _format_values(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _format_values(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return "|".join(_format_value(value) for value in get_args(kind))
    if isinstance(kind, type):
        return {bool: "true|false", int: "integer", float: "number", str: "text"}[kind]
    return "|".join(_format_values(part) for part in get_args(kind) if part is not type(None))


def _find_meaning(kind: Any) -> str:
    descriptions = (item.description for item in get_args(kind) if isinstance(item, msgspec.Meta))
    within = map(_find_meaning, get_args(kind)) if get_origin(kind) is not Annotated else ()
    return next((text for text in (*descriptions, *within) if text), "")


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
