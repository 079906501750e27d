"""Pieces of Markdown: headings, tables, folded blocks, escaped text."""

import re
from collections.abc import Sequence
from urllib.parse import quote

from perfkit.core.sanitize import escape_control_chars
from perfkit_reports.document.cells import Cell
from perfkit_reports.names import shorten_middle
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.render.footnotes import Footnotes

LONGEST = 600  # maximum characters of a sentence or cell
_NOTHING = "<!-- -->"
_ID = re.compile(r"[a-z0-9_.]+")
# Mentions and bare addresses, which hosts link after parsing the markup.
_ALIVE = re.compile(r"(?<!\w)@(?=\w)|(?<=:)//|(?<=www)\.", re.IGNORECASE)


def escape_markdown(text: str, limit: int = LONGEST) -> str:
    """One line of at most `limit` characters that renders as `text`: no tags, links, emphasis, code, cells, mentions.

    An empty HTML comment breaks mentions and links; a dollar sign in its own tag starts no formula (GitHub's
    documentation, "Writing mathematical expressions").
    """
    escaped = shorten_middle(flatten_text(text), limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escaped)
    unlinked = _ALIVE.sub(lambda match: f"@{_NOTHING}" if match[0] == "@" else f"{_NOTHING}{match[0]}", escaped)
    return unlinked.replace("$", "<span>$</span>")


def format_id(id: str) -> str:
    """A stable id as code; escaped where it is none."""
    return f"`{id}`" if _ID.fullmatch(id) else escape_markdown(id)


def format_heading(level: int, title: str) -> str:
    return f"{'#' * level} {escape_markdown(title)}"


def format_cell(item: Cell, notes: Footnotes | None = None) -> str:
    """A cell's text and detail; for unknowns, the number of the footnote with the reason."""
    if not item.known:
        return item.text if notes is None else f"{item.text} ({notes.number(item.reason)})"
    return escape_markdown(f"{item.text} ({item.detail})" if item.detail else item.text)


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_code_block(text: str) -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{escape_control_chars(text.rstrip())}\n{fence}"


def format_folded_block(title: str, text: str) -> str:
    """A code block that GitHub folds."""
    return f"<details><summary>{escape_markdown(title)}</summary>\n\n{format_code_block(text)}\n\n</details>"


def format_link(words: str, address: str) -> str:
    """A link for web addresses, else the address itself, for a local file."""
    if _URL.fullmatch(address):
        return f"[{escape_markdown(words)}](<{quote(address, safe=_OF_ADDRESSES)}>)"
    return f"{escape_markdown(words)}: {escape_markdown(address)}"


_URL = re.compile(r"https?://\S+")
_OF_ADDRESSES = "%:/?#@!&'*+,;=~-._"
