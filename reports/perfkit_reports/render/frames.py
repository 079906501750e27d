"""The raw rows of a document as pandas frames."""

import pandas as pd
import pyarrow as pa

from perfkit_reports.document.document import Document
from perfkit_reports.render.parquet import build_arrow_table, infer_unit

# Types that have a place for what is not known, so that a count stays whole and a flag stays a flag.
_TYPES = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


def build_frame(document: Document, name: str) -> pd.DataFrame:
    """The rows of one table, typed; `frame.attrs["units"]` has the unit of each column that has one.

    Raises `KeyError`, which names those that there are, where there is no such table.
    """
    for data in document.data:
        if data.name == name:
            rows: pd.DataFrame = build_arrow_table(data).to_pandas(types_mapper=_TYPES.get)
            rows.attrs["units"] = {column: symbol for column in data.schema if (symbol := infer_unit(column))}
            return rows
    raise KeyError(f"no table {name!r}; there are {', '.join(list_tables(document))}")


def list_tables(document: Document) -> list[str]:
    """The tables that `build_frame` gives."""
    return [data.name for data in document.data]
