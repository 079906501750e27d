"""How much room a format must have to show something."""

from enum import IntEnum


class Weight(IntEnum):
    """`BRIEF` stands on a terminal's first screen, `NORMAL` in Markdown and on a page, `DETAIL` folded or on demand."""

    BRIEF = 0
    NORMAL = 1
    DETAIL = 2
