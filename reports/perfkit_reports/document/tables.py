"""Tables: columns are functions from a row to a cell, so all formats truncate and sort the same rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import Any, Generic, TypeVar

import msgspec

from perfkit_reports.document.cells import Cell
from perfkit_reports.document.weight import Weight

NOTHING = "–"

Row = TypeVar("Row", contravariant=True)
Owner = TypeVar("Owner")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """`code` sets names in a fixed width, `wrap` breaks long text, `pill` highlights a verdict in its tone.

    `meter` draws a bar behind the number, relative to the table's largest or to `most`, which columns can share.
    `weight` is the room a format needs to show it: terminals show `BRIEF` columns, pages hide `DETAIL` on load.
    """

    title: str
    cell: Callable[[Row], Cell]
    numeric: bool = True
    help: str = ""
    code: bool = False
    meter: bool = False
    wrap: bool = False
    pill: bool = False
    weight: Weight = Weight.NORMAL
    most: float | None = None

    def find_largest(self, rows: Sequence[Row]) -> float:
        """End of the meter: `most`, else the column's largest number, else 1."""
        if self.most is not None:
            return self.most
        values = [value for row in rows if isinstance(value := self.cell(row).value, int | float)]
        return max(values, default=0.0) or 1.0


def drop_empty_columns(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> list[Column[Row]]:
    """Columns with content in any row: module names and shapes are often not recorded."""
    return [column for column in columns if any(column.cell(row).text not in (NOTHING, "") for row in rows)]


Schema = Mapping[str, type | GenericAlias]  # `str`, `float`, `int`, `bool` or `list[str]` by column


@dataclass(frozen=True)
class RawTable:
    """Named raw rows in SI base units, None for unknowns: for Parquet and pandas.

    `rows` is called on demand: displaying a report builds none.
    """

    name: str
    schema: Schema
    rows: Callable[[], Sequence[Mapping[str, Any]]]


def build_schema(struct: type[msgspec.Struct], **first: type | GenericAlias) -> Schema:
    """Columns of `first`, then one per field of `struct` that holds a number, flag or word."""
    columns = dict(first)
    for field in msgspec.structs.fields(struct):
        kinds = [kind for kind in getattr(field.type, "__args__", (field.type,)) if kind is not type(None)]
        kind = kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) else None
        base = next((base for base in (bool, str, int, float) if kind and issubclass(kind, base)), None)
        if base is not None:
            columns[field.name] = base
    return columns


def extract_fields(schema: Schema, item: object, **first: Any) -> dict[str, Any]:
    """Values of `first`, then the fields of `item` with columns in `schema`; enumerations are str already."""
    return {name: first[name] if name in first else getattr(item, name) for name in schema}


def build_plain_data(name: str, struct: type[msgspec.Struct], items: Sequence[object]) -> RawTable:
    """One row per struct."""
    return build_owned_data(name, struct, {}, [((), items)], lambda each: each)


def build_owned_data(
    name: str,
    struct: type[msgspec.Struct],
    first: Schema,
    owners: Iterable[tuple[Sequence[Any], Owner]],
    pick: Callable[[Owner], Iterable[object]],
) -> RawTable:
    """One row per struct that `pick` returns for an owner, after the owner's values of the columns `first`."""
    schema = build_schema(struct, **first)
    owned_by = [(dict(zip(first, values, strict=True)), owner) for values, owner in owners]
    return RawTable(
        name, schema, lambda: [extract_fields(schema, row, **of) for of, owner in owned_by for row in pick(owner)]
    )
