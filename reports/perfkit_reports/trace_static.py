"""Static figures of traces for papers and slides: the roofline and where the time went."""

from collections.abc import Iterator

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit_reports import trace_series
from perfkit_reports.charts import roofline, time_bars
from perfkit_reports.charts.canvas import files
from perfkit_reports.document.blocks import Bars


def images(analysis: TraceAnalysis) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for every figure there is data for."""
    yield from files("roofline", roofline.printed(trace_series.plane(analysis)))
    bars = Bars(id="time-split", title="", bars=tuple(trace_series.trace_bars(analysis)), label="")
    yield from files("time-split", time_bars.printed(bars))
