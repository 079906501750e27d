"""Equal ops of two traces."""

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

from perfkit.analysis.model.step import OpRow

COMPILED = -1  # the level of compiled code and the ops that it replaced


# Compiled code passes output buffers to GEMMs: their `out` overloads record the result, too.
_WITH_RESULT = {"aten::mm": 3, "aten::bmm": 3, "aten::addmm": 4, "aten::baddbmm": 4}


def get_input_shapes(row: OpRow) -> str:
    """The shapes of an op's inputs, without that of the result which an `out` overload is given."""
    shapes = row.shapes.split(" ")
    return " ".join(shapes[:-1]) if len(shapes) == _WITH_RESULT.get(row.name) else row.shapes


class OpPair(NamedTuple):
    """Equal ops on both sides; one side is empty where they do not occur. `level` is the one they matched at."""

    before: Sequence[OpRow]
    after: Sequence[OpRow]
    level: int

    @property
    def first(self) -> OpRow:
        return (self.before or self.after)[0]

    @property
    def before_s(self) -> float:
        return fsum(row.seconds for row in self.before)

    @property
    def after_s(self) -> float:
        return fsum(row.seconds for row in self.after)

    @property
    def change_s(self) -> float:
        return self.after_s - self.before_s
