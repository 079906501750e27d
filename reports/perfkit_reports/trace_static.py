"""Static figures of traces for papers and slides: the roofline and where the time went."""

from collections.abc import Iterator

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit_reports import static, trace_series
from perfkit_reports.charts import roofline
from perfkit_reports.charts.canvas import files


def images(analysis: TraceAnalysis) -> Iterator[tuple[str, bytes]]:
    """(`roofline.png`, content) and so on, for every figure there is data for."""
    yield from files("roofline", roofline.printed(trace_series.plane(analysis)))
    yield from files("time-split", static.time_split(trace_series.trace_bars(analysis)))
