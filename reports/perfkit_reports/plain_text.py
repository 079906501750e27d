"""Names and reasons as one line of harmless characters, for outputs that machines read line by line."""

from perfkit.sanitize import escape_control_chars


def flatten_text(text: str) -> str:
    """`text` with white space and line ends as single spaces, and what is not for reading made visible."""
    return escape_control_chars(" ".join(text.split()))
