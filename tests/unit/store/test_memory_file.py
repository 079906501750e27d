"""rank<k>/memory.parquet: what is written is read, and what is none of it is refused in one line."""

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.core.allocations import (
    COLUMNS,
    TEXTS,
    WIDE,
    Allocations,
    FailedRequest,
    InitialBlock,
    ReservedSegments,
    TimeBand,
    build_allocations,
)
from perfkit.core.errors import RunFormatError
from perfkit.store.memory_file import MEMORY_FILE_VERSION, read_allocations, write_allocations
from perfkit.store.parquet import encode_arrays, encode_rows, read_arrays, read_metadata

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
BLOCKS = st.builds(
    InitialBlock,
    address=INT64,
    size_bytes=INT64,
    category=st.text(max_size=4),
    name=st.text(max_size=4),
    shape=st.text(max_size=4),
    dtype=st.text(max_size=4),
)
BANDS = st.builds(
    TimeBand, kind=st.text(max_size=4), name=st.text(max_size=4), start_ns=INT64, end_ns=INT64, depth=INT32
)
FAILED = st.builds(
    FailedRequest,
    bytes=st.none() | INT64,
    message=st.text(max_size=9),
    phase=st.text(max_size=4),
    step=st.none() | INT32,
    op=st.text(max_size=4),
    module=st.text(max_size=4),
    line=st.text(max_size=4),
)


def several(each: st.SearchStrategy[Any], count: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(each, min_size=count, max_size=count)


@st.composite
def any_allocations(draw: st.DrawFn) -> Allocations:
    count = draw(st.integers(0, 5))
    names = ("", *draw(st.lists(st.text(min_size=1, max_size=5), max_size=3)))
    columns = {
        name: draw(
            several(st.integers(0, len(names) - 1) if name in TEXTS else INT64 if name in WIDE else INT32, count)
        )
        for name in COLUMNS
    }
    held = draw(st.integers(0, 3))
    reserved = ReservedSegments(
        at_event=np.array(draw(several(INT64, held)), np.int64),
        address=np.array(draw(several(INT64, held)), np.int64),
        size=np.array(draw(several(INT64, held)), np.int64),
        expandable=np.array(draw(st.just([]) | several(st.booleans(), held)), np.bool_),
    )
    return build_allocations(
        device=draw(st.text(max_size=6)),
        source=draw(st.text(max_size=6)),
        names=names,
        known=tuple(draw(st.lists(BLOCKS, max_size=2))),
        unexplained_bytes=draw(INT64),
        reserved=reserved,
        bands=tuple(draw(st.lists(BANDS, max_size=2))),
        failed=draw(st.none() | FAILED),
        **columns,
    )


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray):
        return found.dtype == expected.dtype and found.tolist() == expected.tolist()
    return bool(found == expected)


@given(written=any_allocations())
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, written: Allocations) -> None:
    path = tmp_path_factory.mktemp("round") / "memory.parquet"
    write_allocations(path, written)
    read = read_allocations(path)
    for name in set(vars(written)) - {"reserved"}:
        assert same(getattr(read, name), getattr(written, name)), name
    for name in vars(written.reserved):
        assert same(getattr(read.reserved, name), getattr(written.reserved, name)), name


def small() -> Allocations:
    return build_allocations(
        device="cpu", source="by hand", names=("", "aten::mm"), size=[8, -8], time_ns=[1, 2], address=[1, 1], op=[1, 0]
    )


def write_small(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """Columns and metadata of a file of ours."""
    write_allocations(path, small())
    return read_arrays(path, COLUMNS), (read_metadata(path, "perfkit") or b"").decode()


def with_rest(path: Path, **changes: Any) -> None:
    """Write a file with changed entries in its metadata."""
    columns, rest = write_small(path)
    changed = msgspec.json.encode(msgspec.json.decode(rest) | changes).decode()
    path.write_bytes(encode_arrays(columns, {"perfkit": changed}))


def refused(path: Path, message: str) -> None:
    with pytest.raises(RunFormatError, match=message) as caught:
        read_allocations(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("kept", [0, 3, 100, -1])
def test_truncated_files(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "memory.parquet"
    write_allocations(path, small())
    path.write_bytes(path.read_bytes()[:kept])
    refused(path, "not an allocation event file")


def test_a_damaged_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "memory.parquet"
    write_allocations(path, small())
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        with contextlib.suppress(RunFormatError):
            read_allocations(path)


def test_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "memory.parquet"
    path.write_text("no Parquet at all, but long enough to have a footer")
    refused(path, "not an allocation event file")
    path.write_bytes(encode_rows({"a": int}, [{"a": 1}, {"a": 2}], {}))
    refused(path, "not .*allocation event")
    path.write_bytes(encode_rows(dict.fromkeys(COLUMNS, int), [dict.fromkeys(COLUMNS, 1)], {}))
    refused(path, "a Parquet file, but not perfkit's")
    refused(tmp_path / "none.parquet", "not an allocation event file")


@pytest.mark.parametrize(
    ("kind", "sizes"), [(str, ["8", "-8"]), (float, [8.5, -8.5]), (int, [8, None]), (list[int], [[8], [-8]])]
)
def test_a_column_of_another_type(tmp_path: Path, kind: type, sizes: list[Any]) -> None:
    path = tmp_path / "memory.parquet"
    _, rest = write_small(path)
    schema = dict.fromkeys(COLUMNS, int) | {"size": kind}
    rows = [dict.fromkeys(COLUMNS, 0) | {"size": size} for size in sizes]
    path.write_bytes(encode_rows(schema, rows, {"perfkit": rest}))
    refused(path, "not an allocation event file")


def test_columns_that_are_missing_or_narrower(tmp_path: Path) -> None:
    path = tmp_path / "memory.parquet"
    columns, rest = write_small(path)
    path.write_bytes(encode_arrays({name: columns[name] for name in COLUMNS if name != "size"}, {"perfkit": rest}))
    refused(path, "not an allocation event file")
    # Narrower ones hold the same numbers; wider ones might not fit, unless they are ours.
    path.write_bytes(encode_arrays(columns | {"size": columns["size"].astype(np.int16)}, {"perfkit": rest}))
    assert read_allocations(path).size.tolist() == [8, -8]


def test_a_newer_format_says_so(tmp_path: Path) -> None:
    path = tmp_path / "memory.parquet"
    with_rest(path, schema_version=MEMORY_FILE_VERSION + 1, something="new")
    refused(path, f"format {MEMORY_FILE_VERSION + 1}, ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": [""]}, "refers to a missing text"),
        ({"names": ["", 3]}, r"\$\.names"),
        ({"known": [{"address": 1}]}, r"\$\.known"),
        ({"known": [{"address": 1, "size_bytes": 2**63, "category": "", "name": ""}]}, "larger than 64 bits"),
        ({"unexplained_bytes": -(2**63) - 1}, "larger than 64 bits"),
        ({"reserved": [[1, 2]]}, r"\$\.reserved"),
        ({"reserved": [[1, 2, 2**63]]}, "larger than 64 bits"),
        ({"reserved": [[0, 1, 2]], "expandable": [True, False]}, "expandable has 2 entries"),
        ({"something": "else"}, "something"),
        ({"schema_version": "1"}, "schema_version"),
    ],
)
def test_metadata_that_does_not_fit(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "memory.parquet"
    with_rest(path, **changes)
    refused(path, message)


@pytest.mark.parametrize("number", [-1, 2])
def test_a_text_that_the_file_does_not_hold(tmp_path: Path, number: int) -> None:
    path = tmp_path / "memory.parquet"
    write_allocations(path, build_allocations(device="cpu", source="", names=("", "x"), size=[8], line=[number]))
    refused(path, "column line refers to a missing text")
