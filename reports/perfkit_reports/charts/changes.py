"""What made a step slower or faster: bars to the right and to the left that add up to the whole change."""

from perfkit.analysis.model.difference import TraceDifference
from perfkit_reports.charts.frame import Figure, axis, hover, row_bars, rows, time_scale
from perfkit_reports.document.blocks import Chart
from perfkit_reports.names import middle, short_kernel
from perfkit_reports.palette import BLUE, NEUTRAL, VERMILLION, Fill
from perfkit_reports.wording import plural, signed_seconds

_SHOWN = 10
SLOWER, FASTER, TOTAL = Fill(VERMILLION, "/"), Fill(BLUE), Fill(NEUTRAL, ".")


def chart(difference: TraceDifference) -> Chart | None:
    """None where nothing can be compared."""
    if not difference.changes:
        return None
    label = "The largest changes of the step; the table below holds the same figures"
    return Chart(id="changes-chart", title="Op by op", figure=_figure(difference), label=label)


def parts(difference: TraceDifference) -> list[tuple[str, float]]:
    """(name, change in seconds per step): the largest changes, all others, what is no op; they sum to the total."""
    ordered = sorted(difference.changes, key=lambda row: -abs(row.change_s))
    shown, others = ordered[:_SHOWN], ordered[_SHOWN:]
    named = [(_name(place, row.name, row.phase, row.module), row.change_s) for place, row in enumerate(shown, 1)]
    if others:
        named.append((f"{plural(len(others), 'other op')}", sum(row.change_s for row in others)))
    total = difference.after_step_s - difference.before_step_s
    return [*named, ("all that is no op: waiting, overlap", total - sum(seconds for _, seconds in named))]


def _figure(difference: TraceDifference) -> Figure:
    every = parts(difference)
    total = ("the whole step", difference.after_step_s - difference.before_step_s)
    bars = [*every, total]
    scale, unit = time_scale(max(abs(seconds) for _, seconds in bars) or 1e-9)
    groups = (
        (SLOWER, [bar for bar in every if bar[1] > 0]),
        (FASTER, [bar for bar in every if bar[1] <= 0]),
        (TOTAL, [total]),
    )
    traces = [
        row_bars(
            fill,
            [(name, seconds / scale, hover(name, f"{signed_seconds(seconds)} a step")) for name, seconds in some],
            text=[signed_seconds(seconds) for _, seconds in some],
            textposition="outside",
            cliponaxis=False,
        )
        for fill, some in groups
        if some
    ]
    ends = _range([seconds / scale for _, seconds in bars])
    return rows(
        traces,
        [name for name, _ in bars],
        margin={"l": 18, "r": 24, "t": 10, "b": 52},
        xaxis=axis(f"change of the step ({unit})", range=ends, zeroline=True, fixedrange=True),
        barmode="overlay",
    )


def _range(values: list[float]) -> list[float]:
    """Both sides of zero, each with room for its bars' labels."""
    room = 0.3 * max(map(abs, values))
    return [min(0.0, *values) - room, max(0.0, *values) + room]


def _name(place: int, name: str, phase: str, module: str) -> str:
    """Names are the bars' places, so each must be its own."""
    where = ", ".join(part for part in (phase, middle(module, 16)) if part)
    return f"{place}. {short_kernel(name, 28)}" + (f" ({where})" if where else "")
