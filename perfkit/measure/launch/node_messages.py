"""Messages between the machines of a bench, each with an HMAC-SHA256: others can reach the port, too.

The first machine and each that joins choose a nonce. A message carries a code over its key, both nonces and its value,
so that one of another bench, for another machine or of another run is not taken.
"""

import hashlib
import hmac

import msgspec

from perfkit.core.files import JSON_ERRORS
from perfkit.core.spec import Struct


class NodeMessage(Struct):
    """`nonce` is that of the machine that joined, `code` the HMAC in hexadecimal."""

    nonce: str
    value: str
    code: str


def seal_message(secret: bytes, key: str, first_nonce: str, nonce: str, value: str) -> bytes:
    """Encode a message under `key` of the store."""
    return msgspec.json.encode(
        NodeMessage(nonce=nonce, value=value, code=_compute_code(secret, key, first_nonce, nonce, value))
    )


def open_message(secret: bytes, key: str, first_nonce: str, data: bytes) -> NodeMessage | None:
    """Decode a message; None unless it is of someone who knows the secret, for this key and this bench."""
    try:
        message = msgspec.json.decode(data, type=NodeMessage)
    except JSON_ERRORS:
        return None
    code = _compute_code(secret, key, first_nonce, message.nonce, message.value)
    return message if hmac.compare_digest(code.encode(), message.code.encode()) else None


def _compute_code(secret: bytes, key: str, first_nonce: str, nonce: str, value: str) -> str:
    return hmac.new(secret, msgspec.json.encode((key, first_nonce, nonce, value)), hashlib.sha256).hexdigest()
