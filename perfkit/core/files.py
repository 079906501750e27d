"""Reads and writes JSON files: strict in, atomic out, never through a link that others left in a shared folder."""

import os
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from perfkit.core.errors import NewerFormatError, OlderFormatError, PerfkitError, RunFormatError

T = TypeVar("T", bound=msgspec.Struct)

# JSON that is none, of other fields, not UTF-8, or nested more deeply than decoders go.
JSON_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# Windows has no such flag.
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)

# How a user replaces a file of an older format.
MEASURE_AGAIN = "measure again"


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: to a temporary name in the same folder, then renamed.

    A disk that is full or a folder that is not writable is a `PerfkitError` that names the file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.unlink(missing_ok=True)  # of a process that was killed, or a link
            with temporary.open("xb") as file:
                file.write(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise PerfkitError(f"{path}: cannot be written ({error.strerror}); what was written before is intact") from None


def open_log(path: Path) -> BinaryIO:
    """Open a file to append to it; an `OSError` for a link, which could lead anywhere."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | NO_FOLLOW, 0o666), "ab")


def write_json(path: Path, value: msgspec.Struct) -> None:
    """Write a Struct as indented JSON, atomically."""
    write_bytes(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def read_json(path: Path, kind: type[T], *, remedy: str = MEASURE_AGAIN) -> T:
    """Read a Struct. A `RunFormatError` names the file and the field, or the format that differs from today's.

    `remedy` tells the user how to replace a file of an older format.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFormatError(
            f"{path}: cannot be read ({error.strerror}); is this a folder written by perfkit?"
        ) from None
    return decode_json(path, data, kind, remedy=remedy)


def decode_json(name: Path | str, data: bytes, kind: type[T], *, remedy: str = MEASURE_AGAIN) -> T:
    """Decode the bytes of a file, which errors call `name`, as `read_json` does."""
    _check_format(name, data, kind, remedy)
    try:
        return msgspec.json.decode(data, type=kind)
    except JSON_ERRORS as error:
        what = "truncated JSON" if _is_truncated(data) else error
        raise RunFormatError(f"{name}: not a valid {kind.__name__}: {what}") from None


def _is_truncated(data: bytes) -> bool:
    """True if valid JSON ends too early; within a number, msgspec calls that malformed."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        at_the_end = str(error).endswith(f"(byte {len(data)})") and "trailing" not in str(error)
        return "truncated" in str(error) or at_the_end
    except RecursionError:
        return False
    return False


def refuse_other_format(name: Path | str, written: int, known: int, remedy: str = MEASURE_AGAIN) -> None:
    """Raise a `NewerFormatError` or `OlderFormatError` where a file is not in format `known`, which is today's."""
    if written > known:
        raise NewerFormatError(f"{name}: format {written}, but this perfkit reads up to {known}; upgrade perfkit")
    if written < known:
        raise OlderFormatError(f"{name}: format {written}, but this perfkit reads {known}; {remedy}")


class _VersionedFile(msgspec.Struct):
    schema_version: int


@cache  # reading the fields of a Struct takes longer than decoding a small file
def _get_current_version(kind: type[msgspec.Struct]) -> Any:
    """Today's format of a file; None of one that has no version."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}.get("schema_version")


def _check_format(name: Path | str, data: bytes, kind: type[msgspec.Struct], remedy: str) -> None:
    """Refuse another format. A file without a version is left to the strict decoder, which names the problem."""
    known = _get_current_version(kind)
    if known is None:
        return
    try:
        written = msgspec.json.decode(data, type=_VersionedFile).schema_version
    except JSON_ERRORS:
        return
    refuse_other_format(name, written, known, remedy)
