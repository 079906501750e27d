"""How much worse a figure may get: `3%`, `+64MiB`, `<=2GiB`."""

from perfkit.spec import Struct


class Threshold(Struct):
    """The most that a figure may get worse. Exactly one of the three is set; `text` is what was given.

    `relative` is a share of the value before, `change` an absolute change in the quantity's unit, both >= 0 and in the
    direction that is worse; `limit` bounds the value itself: from above where more is worse, else from below.
    """

    text: str
    relative: float | None = None
    change: float | None = None
    limit: float | None = None
