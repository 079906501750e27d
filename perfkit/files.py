"""Reads and writes JSON files: strict in, atomic out."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from perfkit.errors import NewerFormatError, PerfkitError, RunFormatError

T = TypeVar("T", bound=msgspec.Struct)

# By the format that they start from: each changes a decoded file, in place, to the format after it.
Migrations = Mapping[int, Callable[[dict[str, Any]], None]]
_NONE: Migrations = MappingProxyType({})


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: to a temporary name in the same folder, then renamed.

    A disk that is full or a folder that is not writable is a `PerfkitError` that names the file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise PerfkitError(f"{path}: cannot be written ({error.strerror}); what was written before is intact") from None


def write_json(path: Path, value: msgspec.Struct) -> None:
    """Write a Struct as indented JSON, atomically."""
    write_bytes(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def read_json(path: Path, kind: type[T], migrations: Migrations = _NONE) -> T:
    """Read a Struct. A `RunFormatError` names the file and the field, or the version that is too new.

    A file of an older format is brought to today's step by step. A format that `migrations` lacks differs from the
    next one in nothing that a file of it could hold.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFormatError(
            f"{path}: cannot be read ({error.strerror}); is this a folder written by perfkit?"
        ) from None
    return decode_json(path, data, kind, migrations)


def decode_json(name: Path | str, data: bytes, kind: type[T], migrations: Migrations = _NONE) -> T:
    """What `read_json` makes of the bytes of a file, which errors call `name`."""
    try:
        return msgspec.json.decode(_migrate_file(name, data, kind, migrations), type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        what = "the file is truncated: it ends in the middle of its JSON" if _is_truncated(data) else error
        raise RunFormatError(f"{name}: not a valid {kind.__name__}: {what}") from None


def _is_truncated(data: bytes) -> bool:
    """Whether the JSON is right up to its end, which comes too early; within a number msgspec calls that malformed."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        at_the_end = str(error).endswith(f"(byte {len(data)})") and "trailing" not in str(error)
        return "truncated" in str(error) or at_the_end
    return False


def refuse_newer(name: Path | str, written: int, known: int) -> None:
    """A `NewerFormatError` where a file was written in a newer format than `known`, which is today's."""
    if written > known:
        raise NewerFormatError(
            f"{name}: written in format {written}, this perfkit reads up to {known}: upgrade perfkit to read it"
        )


class _VersionedFile(msgspec.Struct):
    schema_version: int


@cache  # reading the fields of a Struct takes longer than decoding a small file
def _get_current_version(kind: type[msgspec.Struct]) -> Any:
    """Today's format of a file; None of one that has no version."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}.get("schema_version")


def _migrate_file(name: Path | str, data: bytes, kind: type[msgspec.Struct], migrations: Migrations) -> bytes:
    """The file in today's format. What has no version is left to the strict decode, which names what is wrong."""
    known = _get_current_version(kind)
    if known is None:
        return data
    try:
        written = msgspec.json.decode(data, type=_VersionedFile).schema_version
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return data
    refuse_newer(name, written, known)
    if written == known:
        return data
    content = msgspec.json.decode(data)
    for version in sorted(migrations):
        if version >= written:
            migrations[version](content)
    content["schema_version"] = known
    return msgspec.json.encode(content)
