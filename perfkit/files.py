"""Reading and writing JSON files: strict in, atomic out."""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from perfkit.errors import PerfkitError, RunFormatError

T = TypeVar("T", bound=msgspec.Struct)


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


def read_json(path: Path, kind: type[T]) -> T:
    """Read a Struct. A `RunFormatError` names the file and the field, or the version that is too new."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFormatError(
            f"{path}: cannot be read ({error.strerror}); is this a folder written by perfkit?"
        ) from None
    _check_version(path, data, kind)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunFormatError(f"{path}: not a valid {kind.__name__}: {error}") from None


class _Versioned(msgspec.Struct):
    schema_version: int


def _check_version(path: Path, data: bytes, kind: type[msgspec.Struct]) -> None:
    known = {field.name: field.default for field in msgspec.structs.fields(kind)}.get("schema_version")
    if known is None:
        return
    try:
        found = msgspec.json.decode(data, type=_Versioned).schema_version
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return  # the strict decode that follows names what is wrong
    if found > known:
        raise RunFormatError(
            f"{path}: written in format {found}, this perfkit reads up to {known}: upgrade perfkit to read it"
        )
