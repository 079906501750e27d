"""Encodes a document's raw rows as Arrow tables and Parquet files, with null for unknowns."""

import io
from types import GenericAlias

import msgspec
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from perfkit_reports.document.tables import RawTable

_TYPES = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
# Unit suffixes of column names.
_UNITS = {
    "flops_per_s": "FLOP/s",  # before the seconds
    "s": "s",
    "seconds": "s",
    "bytes": "B",
    "bytes_per_step": "B",
    "flops": "FLOP",
    "intensity": "FLOP/B",
    "bandwidth": "B/s",
    "power_w": "W",
    "energy_per_step": "J",
    "energy_per_unit": "J",
}


def build_arrow_table(data: RawTable) -> pa.Table:
    """The rows as a table; columns' units are in their metadata."""
    schema = pa.schema(
        [pa.field(name, _get_arrow_type(kind), metadata=_build_metadata(name)) for name, kind in data.schema.items()]
    )
    # Via JSON: for Python lists, Arrow would import pandas, which takes 0.2 s.
    text = b"\n".join(map(msgspec.json.encode, data.rows()))
    if not text:
        return pa.Table.from_batches([], schema)
    reading = pj.ReadOptions(use_threads=False, block_size=len(text))
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    return pj.read_json(io.BytesIO(text), reading, parsing).cast(schema)


def encode_parquet(data: RawTable) -> bytes:
    """The rows as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(build_arrow_table(data), buffer, compression="zstd")
    return buffer.getvalue()


def infer_unit(column: str) -> str:
    """The unit of a column by its name: `step_low_s` is in s; empty without a unit."""
    return next((symbol for ending, symbol in _UNITS.items() if f"_{column}".endswith(f"_{ending}")), "")


def _build_metadata(column: str) -> dict[str, str] | None:
    return {"unit": symbol} if (symbol := infer_unit(column)) else None


def _get_arrow_type(kind: type | GenericAlias) -> pa.DataType:
    if isinstance(kind, GenericAlias):
        return pa.list_(_TYPES[kind.__args__[0]])
    return _TYPES[kind]
