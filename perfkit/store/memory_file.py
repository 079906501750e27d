"""`rank<k>/memory.parquet`: the allocation events of a memory pass."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perfkit.core.allocations import (
    COLUMNS,
    TEXTS,
    WIDE,
    Allocations,
    FailedRequest,
    InitialBlock,
    ReservedSegments,
    TimeBand,
)
from perfkit.core.errors import RunFormatError
from perfkit.core.files import JSON_ERRORS, refuse_other_format, write_bytes
from perfkit.core.spec import Struct
from perfkit.store.parquet import DamagedParquetError, encode_arrays, read_arrays, read_metadata

MEMORY_FILE_VERSION = 1
_KEY = "perfkit"


class _FileMetadata(Struct):
    """Fields without a column, as JSON in the file's metadata.

    `reserved` is (at_event, address, size), `expandable` which of these are, as in `ReservedSegments`.
    """

    schema_version: int = MEMORY_FILE_VERSION
    device: str
    source: str
    names: tuple[str, ...]
    known: tuple[InitialBlock, ...]
    unexplained_bytes: int
    reserved: tuple[tuple[int, int, int], ...]
    expandable: tuple[bool, ...] = ()
    bands: tuple[TimeBand, ...]
    failed: FailedRequest | None
    failures: tuple[int, ...] = ()


class _FileVersion(msgspec.Struct):
    schema_version: int


def write_allocations(path: Path, allocations: Allocations) -> None:
    """Write the events, atomically. `read_allocations` gives back the same."""
    reserved = allocations.reserved
    rest = _FileMetadata(
        device=allocations.device,
        source=allocations.source,
        names=allocations.names,
        known=allocations.known,
        unexplained_bytes=allocations.unexplained_bytes,
        reserved=tuple(zip(reserved.at_event.tolist(), reserved.address.tolist(), reserved.size.tolist(), strict=True)),
        expandable=tuple(reserved.expandable.tolist()),
        bands=allocations.bands,
        failed=allocations.failed,
        failures=allocations.failures,
    )
    columns = {name: getattr(allocations, name) for name in COLUMNS}
    write_bytes(path, encode_arrays(columns, {_KEY: msgspec.json.encode(rest).decode()}))


def read_allocations(path: Path) -> Allocations:
    """Read the events. Raises `RunFormatError` for a file that is truncated, foreign, or of a newer format."""
    try:
        rest = _read_metadata(path)
        arrays = read_arrays(path, COLUMNS)
    except DamagedParquetError as error:
        raise RunFormatError(f"{path}: not an allocation event file: {error}") from None
    _check_numbers(path, rest)
    reserved = np.array(rest.reserved, np.int64).reshape(-1, 3)
    columns: dict[str, Any] = {name: _convert_integers(path, name, column) for name, column in arrays.items()}
    for name in TEXTS:
        if len(columns[name]) and not 0 <= columns[name].min() <= columns[name].max() < len(rest.names):
            raise RunFormatError(f"{path}: column {name} refers to a missing text")
    return Allocations(
        device=rest.device,
        source=rest.source,
        names=rest.names,
        known=rest.known,
        unexplained_bytes=rest.unexplained_bytes,
        reserved=ReservedSegments(
            at_event=reserved[:, 0].copy(),
            address=reserved[:, 1].copy(),
            size=reserved[:, 2].copy(),
            expandable=np.array(rest.expandable, np.bool_),
        ),
        bands=rest.bands,
        failed=rest.failed,
        failures=rest.failures,
        **columns,
    )


def _convert_integers(path: Path, name: str, column: np.ndarray) -> np.ndarray:
    """Narrower integers hold the same numbers; wider ones might not fit, unless the column is ours."""
    if np.ma.is_masked(column):
        raise RunFormatError(f"{path}: not an allocation event file: column {name} lacks values")
    try:
        return np.asarray(column).astype(np.int64 if name in WIDE else np.int32, casting="same_kind")
    except TypeError as error:
        raise RunFormatError(f"{path}: not an allocation event file: {error}") from None


def _read_metadata(path: Path) -> _FileMetadata:
    text = read_metadata(path, _KEY)
    if text is None:
        raise RunFormatError(f"{path}: a Parquet file, but not perfkit's allocation events")
    try:
        refuse_other_format(path, msgspec.json.decode(text, type=_FileVersion).schema_version, MEMORY_FILE_VERSION)
        return msgspec.json.decode(text, type=_FileMetadata)
    except JSON_ERRORS as error:
        raise RunFormatError(f"{path}: not an allocation event file: {error}") from None


def _check_numbers(path: Path, rest: _FileMetadata) -> None:
    """Refuse numbers that no file of perfkit's has, which arrays of 64 bits could not hold."""
    numbers = [rest.unexplained_bytes, *rest.failures, *(number for piece in rest.reserved for number in piece)]
    numbers += [number for block in rest.known for number in (block.address, block.size_bytes)]
    numbers += [number for band in rest.bands for number in (band.start_ns, band.end_ns, band.depth)]
    if any(not -(2**63) <= number < 2**63 for number in numbers):
        raise RunFormatError(f"{path}: contains a number larger than 64 bits")
    if len(rest.expandable) not in (0, len(rest.reserved)):
        raise RunFormatError(f"{path}: expandable has {len(rest.expandable)} entries for {len(rest.reserved)} segments")
