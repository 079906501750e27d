"""Minimizes transfers: compressed text, and 304 for cached content (RFC 9110)."""

import gzip
import hashlib
import os
from http import HTTPStatus

_TEXT = ("text/", "application/json", "image/svg+xml")
_LEAST_BYTES = 1024  # smaller bodies fit into a packet uncompressed
MOST_BYTES = 64 * 2**20  # maximum size of a file read whole for compression
_LEVEL = 6


def is_text(media: str) -> bool:
    """True if the media type is compressible."""
    return media.startswith(_TEXT)


def is_gzip_accepted(accept_encoding: str | None) -> bool:
    """True if a request's `Accept-Encoding` accepts gzip (section 12.5.3)."""
    for part in (accept_encoding or "").split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def compress_body(body: bytes, media: str, accept_encoding: str | None) -> bytes | None:
    """The compressed body; None if not accepted or not smaller."""
    if len(body) < _LEAST_BYTES or not is_text(media) or not is_gzip_accepted(accept_encoding):
        return None
    return gzip.compress(body, _LEVEL, mtime=0)


def compute_tag(body: bytes) -> str:
    """The weak `ETag` of a content, the same compressed or not."""
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


def compute_file_tag(status: os.stat_result) -> str:
    """The `ETag` of a file, which changes with every write."""
    return f'W/"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"'


def is_cached(if_none_match: str | None, tag: str, status: HTTPStatus) -> bool:
    """True if a request's `If-None-Match` matches the content (section 13.1.2)."""
    if status != HTTPStatus.OK or not if_none_match:
        return False
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return "*" in named or tag.removeprefix("W/") in named
