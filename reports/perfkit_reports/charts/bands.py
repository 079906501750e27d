"""Steps, phases and modules over a timeline: a strip of bars above it, a row for each depth of nesting."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit.analysis.model.memory_model import TimelineBand
from perfkit_reports.charts.frame import Trace, build_scatter, escape_text
from perfkit_reports.names import shorten_middle

_MODULE_ROWS = 4
_HOVERED = 400  # times at which the strip can be asked
_NARROWEST = 1 / 1500  # of the timeline: less than a pixel
_TINTS = {"data": "#c9ced6", "forward": "#a9b4c2", "backward": "#77849a", "optimizer": "#93a5b0"}
_OTHER = ("#b7bfca", "#9aa5b4")
_DEPTHS = ("#8aa4bd", "#a7bdd1", "#c2d3e2", "#dbe6ef")
_EDGE = {"color": "#16181d8c", "width": 0.6}


@dataclass(frozen=True)
class BandRow:
    """The bands of one kind and depth, which do not overlap."""

    kind: str
    bands: tuple[TimelineBand, ...]


def build_band_rows(bands: Sequence[TimelineBand], span_s: float) -> list[BandRow]:
    """Build rows from the top: steps where there are several, phases, modules by depth. Bands too narrow to see are
    omitted."""
    rows = []
    for kind in ("step", "phase", "module"):
        of_kind = [
            band
            for band in bands
            if band.kind == kind and min(band.end_s, span_s) - max(band.start_s, 0.0) > span_s * _NARROWEST
        ]
        if kind == "step" and len(of_kind) < 2:
            continue
        depths = sorted({band.depth for band in of_kind})[: _MODULE_ROWS if kind == "module" else 1]
        for depth in depths:
            rows.append(BandRow(kind, tuple(band for band in of_kind if band.depth == depth)))
    return rows


def build_band_traces(strip: Sequence[BandRow], span_s: float, scale: float) -> list[Trace]:
    """A trace of bars for each row, on the second y axis, the first row at the top; times in `scale` seconds."""
    drawn: list[Trace] = []
    for place, row in enumerate(strip):
        starts = [max(band.start_s, 0.0) for band in row.bands]
        ends = [min(band.end_s, span_s) for band in row.bands]
        drawn.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": row.kind,
                "yaxis": "y2",
                "y": [len(strip) - 1 - place] * len(row.bands),
                "base": [round(start / scale, 4) for start in starts],
                "x": [round((end - start) / scale, 4) for start, end in zip(starts, ends, strict=True)],
                "width": 0.9,
                "marker": {"color": _choose_colors(row), "line": _EDGE, "cornerradius": 0},
                "text": [escape_text(_format_label(band), 28) for band in row.bands],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "textfont": {"size": 11},
                "constraintext": "inside",
                "hoverinfo": "skip",
            }
        )
    return [*drawn, _build_hover_trace(strip, span_s, scale)] if strip else []


def _build_hover_trace(strip: Sequence[BandRow], span_s: float, scale: float) -> Trace:
    """An invisible trace with the strip's names at many times, for the hover text that all traces share."""
    bands = [band for row in strip for band in row.bands]
    times = [span_s * place / _HOVERED for place in range(_HOVERED)]
    return build_scatter(
        "lines",
        [round(time / scale, 4) for time in times],
        [(len(strip) - 1) / 2] * len(times),
        name="names",
        yaxis="y2",
        line={"width": 0},
        customdata=[escape_text(describe_position(bands, time) or "outside all", 80) for time in times],
        hoverinfo="all",
        hovertemplate="%{customdata}<extra></extra>",
    )


def describe_position(bands: Sequence[TimelineBand], time_s: float) -> str:
    """`backward, h.3.mlp`: the phase and the innermost module at a time; empty where neither is known."""
    at = [band for band in bands if band.start_s <= time_s < band.end_s]
    phase = next((band.name for band in at if band.kind == "phase"), "")
    modules = sorted((band for band in at if band.kind == "module"), key=lambda band: band.depth)
    return ", ".join(part for part in (phase, shorten_middle(modules[-1].name, 48) if modules else "") if part)


def _format_label(band: TimelineBand) -> str:
    """A module's last part, with the one before a number; a step's number with the word."""
    if band.kind == "module":
        *before, last = band.name.rsplit("/", 1)[-1].split(".")  # torch.profiler's names: `GPT_0/Block_3`
        return ".".join([*before[-1:], last]) if last.isdecimal() else last
    return f"step {band.name}" if band.kind == "step" and band.name.isdecimal() else band.name


def _choose_colors(row: BandRow) -> list[str]:
    if row.kind == "module":
        return [_DEPTHS[min(band.depth, len(_DEPTHS) - 1)] for band in row.bands]
    return [_TINTS.get(band.name, _OTHER[place % 2]) for place, band in enumerate(row.bands)]
