"""One figure as text, and the raw value behind it."""

from dataclasses import dataclass
from typing import Literal

NOT_KNOWN = "n/a"


@dataclass(frozen=True)
class Mark:
    """Where a change lies between none (0) and what is allowed (1); worse is more, and it may be infinite.

    `low` and `high` bound it where it was estimated. The `shape` tells verdicts apart without colour.
    """

    at: float
    low: float | None = None
    high: float | None = None
    shape: Literal["dot", "cross", "ring", "triangle", "down"] = "dot"


@dataclass(frozen=True)
class Cell:
    """`text`, a second line of `detail`, the `reason` where the text is n/a, and a `value` to sort by.

    `whole` is the name that `text` is the short form of, `mark` draws the figure where a format can, `swatch` is the
    (colour, marker) that what it names has in charts.

    `tone` is `good`, `bad`, `unsure` or empty; it only repeats what the text says.
    """

    text: str
    detail: str = ""
    reason: str = ""
    value: float | str | None = None
    tone: str = ""
    whole: str = ""
    mark: Mark | None = None
    swatch: tuple[str, str] | None = None

    @property
    def known(self) -> bool:
        """Whether there is a figure; `reason` says why there is none."""
        return not (self.reason and self.text == NOT_KNOWN)


def make_unknown_cell(reason: str) -> Cell:
    """A figure that is not known, and why."""
    return Cell(NOT_KNOWN, reason=reason or "no reason was recorded")
