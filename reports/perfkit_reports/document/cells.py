"""A figure as text with its raw value."""

from dataclasses import dataclass
from typing import Literal

NOT_KNOWN = "n/a"


@dataclass(frozen=True)
class Mark:
    """Position of a change between none (0) and the threshold (1); larger is worse, and may be infinite.

    `low` and `high` bound estimates. The `shape` distinguishes verdicts without color.
    """

    at: float
    low: float | None = None
    high: float | None = None
    shape: Literal["dot", "cross", "ring", "triangle", "down"] = "dot"


@dataclass(frozen=True)
class Span:
    """An interval drawn as a bar: positions between 0 and 1 on an axis that all rows share; `zero` is no change."""

    low: float
    at: float
    high: float
    zero: float


@dataclass(frozen=True)
class Cell:
    """`text`, a second line of `detail`, the `reason` for n/a, and a `value` to sort by.

    `whole` is the full name if `text` is shortened, `mark` and `span` are drawings of the figure, `swatch` is the
    (color, marker) in charts.

    `tone` is `good`, `bad`, `unsure` or empty; it only repeats the text. `id` is the stable id of a verdict.
    """

    text: str
    detail: str = ""
    reason: str = ""
    value: float | str | None = None
    tone: str = ""
    whole: str = ""
    mark: Mark | None = None
    span: Span | None = None
    swatch: tuple[str, str] | None = None
    id: str = ""

    @property
    def known(self) -> bool:
        """True if there is a figure; else `reason` says why not."""
        return not (self.reason and self.text == NOT_KNOWN)


def make_unknown_cell(reason: str) -> Cell:
    """An unknown figure with its reason."""
    return Cell(NOT_KNOWN, reason=reason or "no reason was recorded")
