"""Parquet files, written and read by DuckDB: it is a third of Arrow's size, and damaged bytes raise an error."""

import functools
import glob
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Any

import duckdb
import msgspec
import numpy as np

_Schema = Mapping[str, type | GenericAlias]
_SQL_TYPES = {str: "VARCHAR", float: "DOUBLE", int: "BIGINT", bool: "BOOLEAN"}


class DamagedParquetError(Exception):
    """A file that is damaged or foreign, or lacks a column: one line that says which."""


def encode_arrays(columns: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a file with a column per array (all of one length) and texts by key in its metadata."""
    with _open_database().cursor() as database:
        database.register("arrays", dict(columns))
        return _write_table(database, "arrays", metadata)


def encode_rows(schema: _Schema, rows: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a file of rows; None and NaN become null.

    `schema` has `str`, `float`, `int`, `bool` or a list of one of them by column.

    Raises `msgspec.ValidationError` for a row that has other columns, or a value of another type, and
    `duckdb.Error` for an integer of more than 64 bits.
    """
    text = msgspec.json.encode(rows)
    _check_rows(schema, text)
    types = _quote(json.dumps([{name: _get_sql_type(kind) for name, kind in schema.items()}]))
    with _open_database().cursor() as database:
        # As one JSON text: DuckDB takes rows of Python one by one, and frames only from pandas.
        rows_of_text = f"(SELECT unnest(from_json_strict($rows, {types}), max_depth := 2))"
        return _write_table(database, rows_of_text, metadata, {"rows": text.decode()})


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns of these names. Raises `DamagedParquetError` if the file is damaged or foreign, or lacks a column."""
    columns = ", ".join(f'"{name}"' for name in names)
    query = f"SELECT {columns} FROM read_parquet($path, hive_partitioning = false)"
    arrays: dict[str, np.ndarray] = _run_query(query, path, duckdb.DuckDBPyConnection.fetchnumpy)
    return arrays


def read_metadata(path: Path, key: str) -> bytes | None:
    """The text of a key of the file's metadata. Raises `DamagedParquetError` if the file is damaged or foreign."""
    query = "SELECT key, value FROM parquet_kv_metadata($path)"
    rows = _run_query(query, path, duckdb.DuckDBPyConnection.fetchall)
    return next((value for name, value in rows if name == key.encode()), None)


@functools.cache
def _open_database() -> duckdb.DuckDBPyConnection:
    """A database in memory that loads no extension and writes no temporary file; opening one takes 50 ms."""
    settings = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    return duckdb.connect(config={"threads": 1, "temp_directory": "", **settings})


def _run_query(query: str, path: Path, fetch: Callable[[duckdb.DuckDBPyConnection], Any]) -> Any:
    try:
        with _open_database().cursor() as database:
            # DuckDB takes a path as a pattern.
            return fetch(database.execute(query, {"path": glob.escape(str(path))}))
    except duckdb.FatalException as error:
        # The database can no longer be used.
        _open_database.cache_clear()
        raise DamagedParquetError(str(error).splitlines()[0]) from None
    except duckdb.Error as error:
        raise DamagedParquetError(str(error).splitlines()[0]) from None
    except UnicodeDecodeError as error:
        # DuckDB's message or a text of the file.
        raise DamagedParquetError(f"damaged text: {error.reason}") from None


def _write_table(
    database: duckdb.DuckDBPyConnection,
    table: str,
    metadata: Mapping[str, str],
    parameters: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a file of a table, or of a query in brackets with its parameters."""
    texts = ", ".join(f"{_quote(key)}: {_quote(text)}" for key, text in metadata.items())
    options = f"FORMAT parquet, COMPRESSION zstd{f', KV_METADATA {{{texts}}}' if texts else ''}"
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        database.execute(f"COPY {table} TO {_quote(file.name)} ({options})", parameters)
        return Path(file.name).read_bytes()  # DuckDB may have put another file in its place


def _check_rows(schema: _Schema, text: bytes) -> None:
    """Refuse what DuckDB would round, leave out or take for null."""
    fields = [(f"column_{number}", kind | None) for number, kind in enumerate(schema.values())]
    names = dict(zip((name for name, _ in fields), schema, strict=True))
    row = msgspec.defstruct("Row", fields, rename=names, forbid_unknown_fields=True)
    msgspec.json.decode(text, type=list[row])  # type: ignore[valid-type]


def _get_sql_type(kind: type | GenericAlias) -> str | list[str]:
    return [_SQL_TYPES[kind.__args__[0]]] if isinstance(kind, GenericAlias) else _SQL_TYPES[kind]


def _quote(text: str) -> str:
    """The text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
