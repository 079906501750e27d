"""Encodes a document's raw rows as Parquet files, with null for unknowns."""

import json

from perfkit.store.parquet import encode_rows
from perfkit_reports.document.tables import RawTable

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


def encode_parquet(data: RawTable) -> bytes:
    """The rows as the bytes of a Parquet file; `units` in its metadata has the columns' units as JSON."""
    return encode_rows(data.schema, data.rows(), {"units": json.dumps(infer_units(data))})


def infer_units(data: RawTable) -> dict[str, str]:
    """The units of the columns that have one, by column."""
    return {column: symbol for column in data.schema if (symbol := infer_unit(column))}


def infer_unit(column: str) -> str:
    """The unit of a column by its name: `step_low_s` is in s; empty without a unit."""
    return next((symbol for ending, symbol in _UNITS.items() if f"_{column}".endswith(f"_{ending}")), "")
