"""Builds pandas frames of a document's raw rows."""

from typing import TYPE_CHECKING

import pyarrow as pa

from perfkit.core.optional_deps import explain_import_error
from perfkit_reports.document.document import Document
from perfkit_reports.render.parquet import build_arrow_table, infer_unit

if TYPE_CHECKING:
    import pandas as pd


def build_frame(document: Document, name: str) -> "pd.DataFrame":
    """The typed rows of one table; `frame.attrs["units"]` has the columns' units.

    Raises `KeyError`, which lists the tables, if there is no such table.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise explain_import_error("pandas", "'perfkit[pandas]'", error) from None

    # Nullable types, so that counts stay integers and flags stay booleans.
    types = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    for data in document.data:
        if data.name == name:
            rows: pd.DataFrame = build_arrow_table(data).to_pandas(types_mapper=types.get)
            rows.attrs["units"] = {column: symbol for column in data.schema if (symbol := infer_unit(column))}
            return rows
    raise KeyError(f"no table {name!r}; available: {', '.join(list_tables(document))}")


def list_tables(document: Document) -> list[str]:
    """Names of the tables for `build_frame`."""
    return [data.name for data in document.data]
