"""The room that a format needs to show an element."""

from enum import IntEnum


class Weight(IntEnum):
    """`BRIEF` is on a terminal's first screen, `NORMAL` in Markdown and on pages, `DETAIL` folded or on demand."""

    BRIEF = 0
    NORMAL = 1
    DETAIL = 2
