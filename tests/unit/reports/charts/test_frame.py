from perfkit_reports.charts.frame import build_row_bars, build_row_figure
from perfkit_reports.palette import Fill

MARGIN = {"t": 6, "b": 40}


def test_every_row_of_bars_has_its_own_height_whatever_stands_above_it() -> None:
    for names in (["one"], ["one", "two", "three"]):
        bars = build_row_bars(Fill("#000000"), [(name, 1.0, "") for name in names])
        drawn = build_row_figure([bars], names, margin=MARGIN)["layout"]
        top, bottom = drawn["yaxis"]["range"][::-1]
        height = drawn["height"] - MARGIN["t"] - MARGIN["b"]
        assert height / (bottom - top) == height / len(names) == 56
        assert drawn["yaxis"]["autorange"] is False
