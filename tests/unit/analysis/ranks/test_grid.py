"""A map of ranks and steps, and what of it is kept where there are too many to be looked at."""

import numpy as np
import pytest

from perfkit.analysis.ranks.grid import MOST_CELLS, MOST_ROWS, build_step_grid


def names(count: int) -> list[str]:
    return [f"rank {number}" for number in range(count)]


def test_few_ranks_and_steps_are_kept_as_they_are() -> None:
    grid = build_step_grid(
        names(2), [7, 8], {"step": np.array([[1.0, 2.0], [3.0, np.nan]]), "wait": np.full((2, 2), np.nan)}
    )
    assert grid is not None
    assert (grid.ranks, grid.steps, grid.ranks_per_row, grid.steps_per_column) == (("rank 0", "rank 1"), (7, 8), 1, 1)
    assert grid.figures == {"step": ((1.0, 2.0), (3.0, None))}  # of what nothing is known nothing is shown
    assert grid.worst_rank == {}


@pytest.mark.parametrize(("ranks", "steps"), [(256, 500), (129, 3), (1000, 1), (3, 100_000)])
def test_one_slow_step_of_one_rank_is_seen_among_all(ranks: int, steps: int) -> None:
    times = np.full((ranks, steps), 0.1)
    slow, when = ranks - 2, steps - 1
    times[slow, when] = 0.4
    grid = build_step_grid(names(ranks), range(steps), {"step": times})
    assert grid is not None
    cells = grid.figures["step"]
    assert len(cells) <= MOST_ROWS
    assert len(cells) * len(cells[0]) <= MOST_CELLS
    (place,) = [(r, c) for r, row in enumerate(cells) for c, value in enumerate(row) if value == 0.4]
    assert place == (slow // grid.ranks_per_row, when // grid.steps_per_column)
    assert {value for row in cells for value in row} == {0.1, 0.4}
    if grid.ranks_per_row > 1:
        assert grid.worst_rank["step"][place[0]][place[1]] == f"rank {slow}"
    assert (grid.all_ranks, grid.all_steps) == (ranks, steps)


def test_nothing_known_is_no_map() -> None:
    assert build_step_grid(names(2), [1], {"step": np.full((2, 1), np.nan)}) is None
    assert build_step_grid(names(2), [], {"step": np.empty((2, 0))}) is None
