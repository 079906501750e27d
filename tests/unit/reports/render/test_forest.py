from math import inf

import pytest

from perfkit_reports.document.cells import Mark
from perfkit_reports.render.forest import Place, place


def test_no_change_lies_on_its_line_and_what_is_allowed_on_another() -> None:
    assert place(Mark(0.0)).point == Place.zero
    between = place(Mark(0.5, low=0.0, high=1.0))
    assert (between.low, between.point, between.high) == (Place.zero, (Place.zero + Place.limit) / 2, Place.limit)


@pytest.mark.parametrize(("at", "beyond"), [(100.0, "right"), (inf, "right"), (-100.0, "left"), (1.0, "")])
def test_what_lies_outside_is_marked_at_the_edge(at: float, beyond: str) -> None:
    assert place(Mark(at)).beyond == beyond
    assert 0 < place(Mark(at)).point < Place.width
