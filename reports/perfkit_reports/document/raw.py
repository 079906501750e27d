"""Raw files of an analysis."""

from collections.abc import Iterator

import msgspec

from perfkit_reports.document.document import Document


def encode_json(analysis: msgspec.Struct) -> bytes:
    """An analysis as JSON; `msgspec.json.decode(data, type=...)` gives it back."""
    return msgspec.json.format(msgspec.json.encode(analysis), indent=1) + b"\n"


def list_raw_files(document: Document) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the raw files of a document's subject."""
    return ((name, encode_json(struct)) for name, struct in document.raw.items())
