"""Structs as Arrow tables and Parquet files, in SI base units, null where something is not known."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

TEXT, REAL, WHOLE, FLAG = pa.string(), pa.float64(), pa.int64(), pa.bool_()
Row = dict[str, Any]
Schema = dict[str, pa.DataType]
_TYPES = {str: TEXT, float: REAL, int: WHOLE, bool: FLAG}


def schema_of(struct: type[msgspec.Struct], **first: pa.DataType) -> Schema:
    """A column per field of `struct` that holds a number, a flag or a word, after those of `first`."""
    found = dict(first)
    for field in msgspec.structs.fields(struct):
        kinds = [kind for kind in getattr(field.type, "__args__", (field.type,)) if kind is not type(None)]
        kind = kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) else None
        base = next((base for base in (bool, str, int, float) if kind and issubclass(kind, base)), None)
        if base is not None:
            found[field.name] = _TYPES[base]
    return found


def fields(schema: Schema, item: object, **first: Any) -> Row:
    """The fields of `item` that `schema` has columns for, after those of `first`; enumerations are str already."""
    return {name: first[name] if name in first else getattr(item, name) for name in schema}


def tables(schemas: Mapping[str, Schema], rows: Mapping[str, Sequence[Row]]) -> dict[str, pa.Table]:
    """Every table of `schemas`, with no rows where there is nothing."""
    return {
        name: pa.Table.from_pylist(list(rows[name]), schema=pa.schema(list(schema.items())))
        for name, schema in schemas.items()
    }


def parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
