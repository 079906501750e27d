"""Pieces of Markdown: headings, tables, folded blocks, and text that can form no markup."""

import re
from collections.abc import Sequence
from urllib.parse import quote

from perfkit.sanitize import escape_control_chars
from perfkit_reports.document.cells import Cell
from perfkit_reports.names import shorten_middle
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.render.footnotes import Footnotes

LONGEST = 600  # characters of a sentence or a cell, of which more would hide the rest
_NOTHING = "<!-- -->"
# What hosts make something of after the markup is read: mentions and bare addresses.
_ALIVE = re.compile(r"(?<!\w)@(?=\w)|(?<=:)//|(?<=www)\.", re.IGNORECASE)


def escape_markdown(text: str, limit: int = LONGEST) -> str:
    """One line of at most `limit` characters that reads as `text` and in which nothing is markup: no tags, links,
    emphasis, code, cells; it calls nobody.

    An empty HTML comment parts what a host would make a mention or a link; a dollar sign in a tag of its own begins no
    formula (GitHub's documentation, "Writing mathematical expressions").
    """
    escaped = shorten_middle(flatten_text(text), limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escaped)
    parted = _ALIVE.sub(lambda found: f"@{_NOTHING}" if found[0] == "@" else f"{_NOTHING}{found[0]}", escaped)
    return parted.replace("$", "<span>$</span>")


def format_heading(level: int, title: str) -> str:
    return f"{'#' * level} {escape_markdown(title)}"


def format_cell(item: Cell, notes: Footnotes | None = None) -> str:
    """A cell's text and detail; where it is not known, the number of the footnote that says why."""
    if not item.known:
        return item.text if notes is None else f"{item.text} ({notes.number(item.reason)})"
    return escape_markdown(f"{item.text} ({item.detail})" if item.detail else item.text)


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_code_block(text: str) -> str:
    """A block of code, whose fence is longer than any run of backticks within."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{escape_control_chars(text.rstrip())}\n{fence}"


def format_folded_block(title: str, text: str) -> str:
    """A block of code that GitHub folds."""
    return f"<details><summary>{escape_markdown(title)}</summary>\n\n{format_code_block(text)}\n\n</details>"


def format_link(words: str, address: str) -> str:
    """A link where `address` is one of the web, else the address itself, for a file that lies beside."""
    if _URL.fullmatch(address):
        return f"[{escape_markdown(words)}](<{quote(address, safe=_OF_ADDRESSES)}>)"
    return f"{escape_markdown(words)}: {escape_markdown(address)}"


_URL = re.compile(r"https?://\S+")
_OF_ADDRESSES = "%:/?#@!&'*+,;=~-._"
