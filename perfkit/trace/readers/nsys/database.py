"""Opens an export as a database, and reads its tables into columns.

https://docs.nvidia.com/nsight-systems/UserGuide: "SQLite Schema Reference". Tables and columns come and go between
versions: what is not there is read as missing.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from perfkit.core.errors import RunFormatError
from perfkit.trace.model import NONE, Ints

MAGIC = b"SQLite format 3\0"
_MOST = np.iinfo(np.int64)


@contextmanager
def open_database(data: bytes, label: str) -> Iterator[sqlite3.Connection]:
    """The database in `data`, in memory: nothing is written, and no code of it runs. `RunFormatError` if it is none."""
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(data)
        database.execute("PRAGMA trusted_schema=OFF")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield database
    except sqlite3.Error as error:
        raise RunFormatError(f"{label}: a damaged SQLite database ({error})") from None
    finally:
        database.close()


def list_columns(database: sqlite3.Connection, table: str) -> set[str]:
    """The names of a table's columns, none without the table. A view is no table."""
    kind = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if kind is None or kind[0] != "table":
        return set()
    return {row[1] for row in database.execute("SELECT * FROM pragma_table_info(?)", (table,))}


def read_numbers(database: sqlite3.Connection, table: str, names: tuple[str, ...]) -> dict[str, Ints]:
    """Columns of integers, in the order of rows; what is missing or no integer is NONE."""
    known = list_columns(database, table)
    if not known:
        return {name: np.zeros(0, np.int64) for name in names}
    chosen = [f'"{name}"' if name in known else "NULL" for name in names]
    rows = database.execute(f'SELECT {", ".join(chosen)} FROM "{table}"').fetchall()
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {
        name: np.fromiter((_as_number(value) for value in column), np.int64, len(rows))
        for name, column in zip(names, columns, strict=True)
    }


def read_texts(database: sqlite3.Connection, table: str, key: str, text: str) -> dict[int, str]:
    """Texts by number."""
    known = list_columns(database, table)
    if not {key, text} <= known:
        return {}
    rows = database.execute(f'SELECT "{key}", "{text}" FROM "{table}"')
    return {_as_number(number): str(value) for number, value in rows if value is not None}


def _as_number(value: object) -> int:
    return value if isinstance(value, int) and _MOST.min <= value <= _MOST.max else NONE
