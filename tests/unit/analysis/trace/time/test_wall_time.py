"""Wall time against counting every nanosecond."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.time.wall_time import has_overlap, measure_group_wall_ns, measure_wall_ns

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 3)), max_size=30)


@given(spans)
def test_wall_time_is_that_of_the_union(given_spans: list[tuple[int, int, int]]) -> None:
    ordered = sorted(given_spans)
    starts = np.asarray([start for start, _, _ in ordered], np.int64)
    ends = starts + np.asarray([length for _, length, _ in ordered], np.int64)
    of = np.asarray([number for _, _, number in ordered], np.int64)

    def covered(rows: list[int]) -> int:
        return len({moment for row in rows for moment in range(int(starts[row]), int(ends[row]))})

    everything = covered(list(range(len(ordered))))
    assert measure_wall_ns(starts, ends) == everything
    groups = group_rows(of)
    members: list[list[int]] = [np.flatnonzero(groups.of == number).tolist() for number in range(len(groups))]
    assert measure_group_wall_ns(groups, starts, ends).tolist() == [covered(rows) for rows in members]
    if not has_overlap(starts, ends):
        assert everything == int((ends - starts).sum())
