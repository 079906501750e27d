"""Columns and rows that are read back as they were written, and what is refused."""

import io
from pathlib import Path

import duckdb
import msgspec
import numpy as np
import pytest

from perfkit.store.parquet import DamagedParquetError, encode_arrays, encode_rows, read_arrays, read_metadata

SCHEMA = {"name": str, "seconds": float, "calls": int, "known": bool, "shapes": list[str]}


@pytest.mark.parametrize("name", ["plain.parquet", "a[0]*?.parquet", "it's {here}.parquet", "day=1/part.parquet"])
def test_names_of_files_are_no_patterns(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encode_arrays({"day": np.array([2**62, -3])}, {"key": "it's {\"a\": 'ü'}"}))
    assert read_arrays(path, ["day"])["day"].tolist() == [2**62, -3]
    assert read_metadata(path, "key") == "it's {\"a\": 'ü'}".encode()
    assert read_metadata(path, "other") is None


def test_rows_have_types_and_nulls() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"name": "it's\0", "seconds": 0.1, "calls": -(2**63), "known": True, "shapes": ["a", "b"]},
        {"name": None, "seconds": float("nan"), "calls": None, "known": None, "shapes": []},
        {"name": "", "seconds": 3, "calls": 2**63 - 1, "known": False, "shapes": None},
    ]
    table = parquet.read_table(io.BytesIO(encode_rows(SCHEMA, rows, {})))
    assert table.to_pylist() == [rows[0], rows[1] | {"seconds": None}, rows[2]]


@pytest.mark.parametrize("row", [{"calls": 1.5}, {"calls": "1"}, {"calls": 1, "more": 2}, {}, {"calls": 2**63}])
def test_rows_that_do_not_fit_are_refused(row: dict[str, object]) -> None:
    with pytest.raises((msgspec.ValidationError, duckdb.Error)):
        encode_rows({"calls": int}, [row], {})


@pytest.mark.parametrize("content", [b"", b"PAR1" + bytes(100), b"no Parquet file, but long enough for a footer"])
def test_foreign_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.parquet"
    path.write_bytes(content)
    with pytest.raises(DamagedParquetError):
        read_arrays(path, ["a"])
    with pytest.raises(DamagedParquetError):
        read_metadata(path, "a")
