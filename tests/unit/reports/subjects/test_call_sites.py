"""Source lines that launched work."""

import msgspec

from perfkit.analysis.model.step import BY_STACK, FlameGraph
from perfkit_reports.subjects.trace.rows.call_sites import find_call_sites, make_line_cell, make_stacks_cell
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import rank_trace


def test_the_line_is_that_of_most_of_the_time() -> None:
    flame = FlameGraph(
        grouping=BY_STACK,
        names=("model.py(7): forward", "loss.py(31): loss", "aten::mm"),
        kinds=("frame", "op"),
        parent=(-1, 0, -1, 2),
        name=(0, 2, 1, 2),
        kind=(0, 1, 0, 1),
        values={"time": (0.3, 0.3, 0.5, 0.5)},
        min_share=0.0,
    )
    sites = find_call_sites(msgspec.structs.replace(rank_trace(), flames=(flame,)))
    assert make_line_cell(sites, "op:aten::mm").text.endswith("(loss.py:31)")
    assert list_figures(make_stacks_cell(sites, "op:aten::mm").text)[-1] == "300 ms"
    assert make_line_cell(find_call_sites(rank_trace()), "op:aten::mm").text == make_line_cell({}, "x").text
