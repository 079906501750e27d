"""What fills the memory: stacked bars at the peak for all variants, and one variant's course over a step."""

from perfkit import units
from perfkit.analysis.result import Analysis, MemoryAccount, Variant
from perfkit_reports.figures.frame import (
    ROWS_AXIS,
    Figure,
    Trace,
    byte_scale,
    figure,
    hover,
    row_labels,
    rows_height,
    safe,
    time_scale,
)
from perfkit_reports.palette import NEUTRAL, bar_pattern, category_fills, ordered_categories


def memory_peak(analysis: Analysis) -> Figure | None:
    """None where no variant's memory was recorded."""
    accounts = accounted(analysis)
    if not accounts:
        return None
    categories = ordered_categories([[part.category for part in account.categories] for _, account in accounts])
    fills = category_fills(categories)
    scale, unit = byte_scale(max(account.peak_bytes for _, account in accounts))
    traces: list[Trace] = []
    for category in categories:
        parts = [
            (variant, account, part)
            for variant, account in accounts
            for part in account.categories
            if part.category == category
        ]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": safe(category),
                "y": [variant.name for variant, *_ in parts],
                "x": [part.bytes / scale for *_, part in parts],
                "width": 0.46,
                "marker": {"color": fills[category].colour, "pattern": bar_pattern(fills[category])},
                "hovertext": [
                    hover(
                        f"{variant.name}: {category}",
                        f"{units.nbytes(part.bytes)}, {units.percent(part.bytes / account.peak_bytes)} of the peak",
                    )
                    for variant, account, part in parts
                ],
                "hoverinfo": "text",
            }
        )
    totals = [
        {
            "x": account.peak_bytes / scale,
            "y": variant.name,
            "text": units.nbytes(account.peak_bytes),
            "xanchor": "left",
            "xshift": 6,
            "showarrow": False,
        }
        for variant, account in accounts
    ]
    return figure(
        traces,
        barmode="stack",
        height=rows_height(len(accounts)),
        margin={"l": 18, "r": 12, "t": 6, "b": 52},
        annotations=row_labels([variant.name for variant, _ in accounts]) + totals,
        xaxis={
            "title": {"text": f"allocated at the peak ({unit})"},
            "range": [0, 1.22 * max(account.peak_bytes for _, account in accounts) / scale],
            "fixedrange": True,
        },
        yaxis=ROWS_AXIS,
    )


def memory_timeline(account: MemoryAccount) -> Figure | None:
    """Stacked areas over one step, with the peak as a line; None without a timeline."""
    if not account.timeline_s:
        return None
    categories = ordered_categories([list(account.timeline_categories)])
    fills = category_fills(categories)
    scale, unit = byte_scale(account.peak_bytes)
    seconds, time_unit = time_scale(account.timeline_s[-1])
    times = [round(time / seconds, 4) for time in account.timeline_s]
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "all",
            "name": safe(category),
            "x": times,
            "y": [round(amount / scale, 4) for amount in account.timeline_categories[category]],
            "line": {"width": 0.6, "color": fills[category].colour, "shape": "hv"},
            "fillcolor": fills[category].colour,
            "fillpattern": {
                "shape": fills[category].pattern,
                "fgcolor": "#ffffff",
                "bgcolor": fills[category].colour,
                "solidity": 0.2,
            },
            "hovertemplate": f"%{{y:.4~g}} {unit}<extra>{safe(category)}</extra>",
        }
        for category in categories
    ]
    peak = account.peak_bytes / scale
    return figure(
        traces,
        margin={"l": 64, "r": 16, "t": 10, "b": 52},
        hovermode="x unified",
        shapes=[
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": peak,
                "y1": peak,
                "line": {"color": NEUTRAL, "width": 1.4, "dash": "dash"},
            }
        ],
        annotations=[
            {
                "xref": "paper",
                "x": 1,
                "xanchor": "right",
                "y": peak,
                "yanchor": "bottom",
                "text": f"peak {units.nbytes(account.peak_bytes)}",
                "showarrow": False,
            }
        ],
        xaxis={"title": {"text": f"time in the step ({time_unit})"}, "range": [0, times[-1]]},
        yaxis={"title": {"text": f"allocated ({unit})"}, "range": [0, peak * 1.12]},
    )


def accounted(analysis: Analysis) -> list[tuple[Variant, MemoryAccount]]:
    """Variants whose memory was recorded."""
    return [(variant, variant.memory) for variant in analysis.variants if variant.memory is not None]
