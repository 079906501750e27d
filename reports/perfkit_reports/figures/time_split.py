"""Where a step's time goes: one bar per variant, stacked to 100 %."""

from perfkit import units
from perfkit.analysis.result import Analysis
from perfkit_reports.figures.frame import ROWS_AXIS, Figure, Trace, figure, hover, row_labels, rows_height, safe
from perfkit_reports.palette import bar_pattern, category_fills, ordered_categories


def time_split(analysis: Analysis) -> Figure | None:
    """None where no variant was traced."""
    variants = [variant for variant in analysis.variants if variant.time_split]
    if not variants:
        return None
    categories = ordered_categories([[share.category for share in variant.time_split] for variant in variants])
    fills = category_fills(categories)
    traces: list[Trace] = []
    for category in categories:
        parts = [(variant, share) for variant in variants for share in variant.time_split if share.category == category]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": safe(category),
                "y": [variant.name for variant, _ in parts],
                "x": [share.share * 100 for _, share in parts],
                "width": 0.46,
                "marker": {"color": fills[category].colour, "pattern": bar_pattern(fills[category])},
                "text": [units.percent(share.share, 0) if share.share >= 0.06 else "" for _, share in parts],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "insidetextfont": {"weight": 600},
                "textangle": 0,
                "hovertext": [
                    hover(
                        f"{variant.name}: {category}",
                        f"{units.percent(share.share)} of the step, {units.seconds(share.seconds)}",
                    )
                    for variant, share in parts
                ],
                "hoverinfo": "text",
            }
        )
    return figure(
        traces,
        barmode="stack",
        height=rows_height(len(variants)),
        margin={"l": 18, "r": 24, "t": 6, "b": 40},
        annotations=row_labels([variant.name for variant in variants]),
        xaxis={"range": [0, 100], "ticksuffix": " %", "ticklabeloverflow": "allow", "fixedrange": True},
        yaxis=ROWS_AXIS,
    )
