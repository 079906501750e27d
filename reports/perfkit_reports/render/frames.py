"""Builds pandas frames of a document's raw rows."""

from typing import TYPE_CHECKING

from perfkit.core.optional_deps import explain_import_error
from perfkit_reports.document.document import Document
from perfkit_reports.render.parquet import infer_units

if TYPE_CHECKING:
    import pandas as pd

# Nullable types, so that counts stay integers and flags stay booleans.
_FRAME_TYPES: dict[object, str] = {str: "string", int: "Int64", float: "float64", bool: "boolean"}


def build_frame(document: Document, name: str) -> "pd.DataFrame":
    """The typed rows of one table; `frame.attrs["units"]` has the columns' units.

    Raises `KeyError`, which lists the tables, if there is no such table.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise explain_import_error("pandas", "'perfkit[pandas]'", error) from None

    for data in document.data:
        if data.name == name:
            rows = data.rows()
            columns = {
                column: pd.Series([row[column] for row in rows], dtype=_FRAME_TYPES.get(kind, "object"))
                for column, kind in data.schema.items()
            }
            frame = pd.DataFrame(columns)
            frame.attrs["units"] = infer_units(data)
            return frame
    raise KeyError(f"no table {name!r}; available: {', '.join(list_tables(document))}")


def list_tables(document: Document) -> list[str]:
    """Names of the tables for `build_frame`."""
    return [data.name for data in document.data]
