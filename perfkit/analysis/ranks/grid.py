"""Seconds by rank and step, reduced for display: neighbors merge, each keeping the largest value."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.fleet import StepGrid

MOST_ROWS = 128
MOST_CELLS = 4096

Floats = NDArray[np.float64]


def build_step_grid(ranks: Sequence[str], steps: Sequence[int], figures: Mapping[str, Floats]) -> StepGrid | None:
    """Build a grid: a row per rank and a column per step for each of `figures`, NaN where unknown.

    Of more than are to be drawn, as many neighbors as it takes are one, with the largest of their values: a step in
    which one rank was slow is seen however many there are. Figures of which nothing is known are left out; None where
    that leaves none.
    """
    known = {name: values for name, values in figures.items() if values.size and not np.isnan(values).all()}
    if not known:
        return None
    per_row = -(-len(ranks) // MOST_ROWS)
    rows = -(-len(ranks) // per_row)
    per_column = -(-len(steps) // max(1, MOST_CELLS // rows))
    values, worst = {}, {}
    for name, whole in known.items():
        cells = _split_cells(whole, per_row, per_column)
        values[name] = tuple(tuple(map(_drop_unknown, row)) for row in cells.max(axis=2).tolist())
        if per_row > 1:
            # Within a cell the steps of a rank follow each other.
            of = cells.argmax(axis=2) // per_column + np.arange(rows)[:, None] * per_row
            worst[name] = tuple(tuple(ranks[min(at, len(ranks) - 1)] for at in row) for row in of.tolist())
    return StepGrid(
        ranks=tuple(ranks[::per_row]),
        steps=tuple(steps[::per_column]),
        figures=values,
        worst_rank=worst,
        ranks_per_row=per_row,
        steps_per_column=per_column,
        all_ranks=len(ranks),
        all_steps=len(steps),
    )


def _split_cells(whole: Floats, per_row: int, per_column: int) -> Floats:
    """The values of each cell in a third axis; -1 where unknown, and beyond the end."""
    ranks, steps = whole.shape
    rows, columns = -(-ranks // per_row), -(-steps // per_column)
    padded = np.full((rows * per_row, columns * per_column), -1.0)
    padded[:ranks, :steps] = np.where(np.isnan(whole), -1.0, whole)
    apart = padded.reshape(rows, per_row, columns, per_column).swapaxes(1, 2)
    return apart.reshape(rows, columns, per_row * per_column)


def _drop_unknown(seconds: float) -> float | None:
    return None if seconds < 0 else seconds
