"""The file that a rank of perfkit's own leaves of its flight recorder: the dump of torch as JSON, with its stacks,
packed."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import msgspec

from perfkit.core.errors import RunFormatError
from perfkit.core.files import JSON_ERRORS, write_bytes
from perfkit.flight.decode import decode_dump
from perfkit.flight.flight_record import FlightRecord

_KEPT = 500  # collectives: the last ones show where a rank waits


def write_flight_record(path: Path, dump: dict[str, Any]) -> None:
    """Write the last collectives of a dump of torch."""
    kept = {**dump, "entries": dump["entries"][-_KEPT:]}
    write_bytes(path, gzip.compress(msgspec.json.encode(kept), compresslevel=1))


def read_flight_record(path: Path) -> FlightRecord:
    """`RunFormatError` names a file that is damaged."""
    try:
        dump = msgspec.json.decode(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, zlib.error, *JSON_ERRORS) as error:
        raise RunFormatError(f"{path}: cannot be read ({error})") from None
    return decode_dump(dump, str(path))
