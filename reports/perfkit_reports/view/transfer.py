"""How little has to be sent: text compressed, and nothing at all of what a browser has already (RFC 9110)."""

import gzip
import hashlib
import os
from http import HTTPStatus

_TEXT = ("text/", "application/json", "image/svg+xml")
_LEAST_BYTES = 1024  # less than this fits into a packet as it is
MOST_BYTES = 64 * 2**20  # of a file that is read whole to be compressed
_LEVEL = 6


def is_text(media: str) -> bool:
    """Whether a media type is one that compresses."""
    return media.startswith(_TEXT)


def is_gzip_accepted(accept_encoding: str | None) -> bool:
    """Whether a request's `Accept-Encoding` asks for gzip (section 12.5.3)."""
    for part in (accept_encoding or "").split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def compress_body(body: bytes, media: str, accept_encoding: str | None) -> bytes | None:
    """The body compressed; None where that is not asked for or saves nothing."""
    if len(body) < _LEAST_BYTES or not is_text(media) or not is_gzip_accepted(accept_encoding):
        return None
    return gzip.compress(body, _LEVEL, mtime=0)


def compute_tag(body: bytes) -> str:
    """The `ETag` of a content, compressed or not: a weak one, which says the same of both."""
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


def compute_file_tag(found: os.stat_result) -> str:
    """The `ETag` of a file, which changes whenever it is written."""
    return f'W/"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"'


def is_cached(if_none_match: str | None, tag: str, status: HTTPStatus) -> bool:
    """Whether a request's `If-None-Match` names what would be sent (section 13.1.2)."""
    if status != HTTPStatus.OK or not if_none_match:
        return False
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return "*" in named or tag.removeprefix("W/") in named
