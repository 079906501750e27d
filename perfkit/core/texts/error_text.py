"""Texts of exceptions as records keep them, cut to a size: messages can hold a whole batch, and reports repeat them."""

import traceback

# A message, and a traceback or another text of several lines. Longer ones keep their beginning and end.
LINE_CHARS = 4_000
TEXT_CHARS = 64_000


def cap_text(text: str, most: int = TEXT_CHARS) -> str:
    """`text`, or of a longer one the first and the last half of `most` characters with the number of bytes between."""
    if len(text) <= most:
        return text
    half = most // 2
    left_out = len(text[half:-half].encode(errors="replace"))
    return f"{text[:half]} ... [{left_out:,} bytes left out] ... {text[-half:]}"


def cap_line(text: str) -> str:
    """`text` as `cap_text` does, to the size of a message."""
    return cap_text(text, LINE_CHARS)


def format_first_line(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    message = str(error).strip().splitlines()
    return cap_line(f"{type(error).__name__}: {message[0]}") if message else type(error).__name__


def format_traceback(report: traceback.TracebackException) -> str:
    """A traceback with its causes."""
    return cap_text("".join(report.format()).rstrip())
