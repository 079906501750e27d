"""Text that is safe on a terminal."""

from typing import Any, Self

from rich.text import Text

from perfkit.core.sanitize import escape_control_chars


class SafeText(Text):
    """rich's Text without control characters from names, paths and errors."""

    def __init__(self, text: str = "", style: Any = "", **options: Any) -> None:
        super().__init__(escape_control_chars(text), style, **options)

    def append(self, text: Text | str, style: Any = None) -> Self:
        """Append text, with a style if it is a string."""
        super().append(escape_control_chars(text) if isinstance(text, str) else text, style)
        return self
