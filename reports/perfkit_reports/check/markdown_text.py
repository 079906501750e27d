"""Text of a check in a comment that a bot writes: it forms no markup, calls nobody, links nowhere."""

import re
from urllib.parse import quote

from perfkit_reports import marks
from perfkit_reports.names import middle
from perfkit_reports.plain import one_line

SENTENCE = 600  # characters, of which more would hide the rest
_URL = re.compile(r"https?://\S+")
# What hosts make something of after the markup is read: mentions and bare addresses.
_ALIVE = re.compile(r"(?<!\w)@(?=\w)|(?<=:)//|(?<=www)\.", re.IGNORECASE)


def escaped(text: str, limit: int = SENTENCE) -> str:
    """One line of at most `limit` characters that reads as `text`, whatever is in it.

    An empty HTML comment parts what a host would make a mention or a link; a dollar sign in a tag of its own begins no
    formula (GitHub's documentation, "Writing mathematical expressions").
    """
    safe = marks.safe(middle(one_line(text), limit))
    parted = _ALIVE.sub(lambda found: f"@{_NOTHING}" if found[0] == "@" else f"{_NOTHING}{found[0]}", safe)
    return parted.replace("$", "<span>$</span>")


_NOTHING = "<!-- -->"


def link(words: str, address: str) -> str:
    """A link where `address` is one of the web, else the address itself, for a file that lies beside."""
    if _URL.fullmatch(address):
        return f"[{escaped(words)}](<{quote(address, safe=_OF_ADDRESSES)}>)"
    return f"{escaped(words)}: {escaped(address)}"


_OF_ADDRESSES = "%:/?#@!&'*+,;=~-._"
