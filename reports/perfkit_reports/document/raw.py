"""Files that hold an analysis itself."""

import msgspec


def as_json(analysis: msgspec.Struct) -> bytes:
    """An analysis as JSON; `msgspec.json.decode(data, type=...)` gives it back."""
    return msgspec.json.format(msgspec.json.encode(analysis), indent=1) + b"\n"
