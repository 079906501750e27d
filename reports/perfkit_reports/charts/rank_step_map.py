"""Ranks by steps as a map: the deviation of each from the median of its figure, in colorblind-safe colors."""

from collections.abc import Iterator, Sequence
from statistics import median

from perfkit.analysis.model.fleet import LATE, STEP, WAIT, StepGrid
from perfkit.core import units
from perfkit_reports.charts.frame import Trace, build_figure, escape_text
from perfkit_reports.charts.rank_charts import get_cell_color
from perfkit_reports.document.blocks import Block, Chart, Choice
from perfkit_reports.palette import BLUE, VERMILLION
from perfkit_reports.wording import format_plural

_LEAST = 0.05  # of the median step: least range of the color scale, so that noise shows no color
_MOST = 1.0  # greatest range, so that one long step does not blank out the others
_FROM_NONE = (LATE, WAIT)  # expected to be zero
_NAMED = 24  # most rows with room for a name each
_HEIGHT = 420  # of many rows, pixels


def build_charts(grid: StepGrid, name: str) -> Choice:
    """A map for each figure that is known, one at a time; `name` begins their ids."""
    options: dict[tuple[str, ...], Block] = {
        (_get_title(figure),): _build_chart(grid, figure, f"{name}-chart-{place}")
        for place, figure in enumerate(grid.figures)
    }
    return Choice(id=name, title="By rank and step", keys=("Figure",), options=options)


def _get_title(figure: str) -> str:
    return "Step time" if figure == STEP else f"{figure[0].upper()}{figure[1:]}"


def _build_chart(grid: StepGrid, name: str, block: str) -> Chart:
    cells = grid.figures[name]
    known = [value for row in cells for value in row if value is not None]
    scale = median([value for row in grid.figures.get(STEP, cells) for value in row if value is not None])
    middle = 0.0 if name in _FROM_NONE else median(known)
    away = [[None if value is None else _compute_share(value - middle, scale) for value in row] for row in cells]
    farthest = max(abs(share) for row in away for share in row if share is not None)
    far = min(_MOST, max(_LEAST, farthest))
    ends = "from zero" if name in _FROM_NONE else "from the overall median"
    return Chart(
        id=block,
        figure=_build_map(grid, name, away, far),
        label=f"{_get_title(name)} of {format_plural(grid.all_ranks, 'rank')} in "
        f"{format_plural(grid.all_steps, 'step')}",
        caption=" ".join(
            _build_caption(grid, f"Column: {_describe_column(grid)}. Row: {_describe_row(grid)}.", ends, far, farthest)
        ),
        legend=[("longer", VERMILLION, ""), *([] if name in _FROM_NONE else [("shorter", BLUE, "")])],
        height=_compute_height(len(cells)),
    )


def _build_caption(grid: StepGrid, what: str, ends: str, far: float, farthest: float) -> Iterator[str]:
    yield what
    if grid.ranks_per_row > 1 or grid.steps_per_column > 1:
        rank = " and names its rank" if grid.ranks_per_row > 1 else ""
        yield f"A cell shows its longest value{rank}."
    more = "; larger deviations are clipped" if farthest > far else ""
    yield f"Color scale: {ends} up to {units.format_percent(far, 0)} of the median step{more}."


def _describe_column(grid: StepGrid) -> str:
    return "one step" if grid.steps_per_column == 1 else f"{grid.steps_per_column:,} steps"


def _describe_row(grid: StepGrid) -> str:
    return "one rank" if grid.ranks_per_row == 1 else f"{grid.ranks_per_row:,} ranks"


def _build_map(grid: StepGrid, name: str, away: Sequence[Sequence[float | None]], far: float) -> dict[str, object]:
    columns = [f"{step:,}" for step in grid.steps]
    height = 0.92 if len(away) <= _NAMED else 1.0
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": escape_text(grid.ranks[place], 18),
            "x": columns,
            "y": [height] * len(columns),
            "base": place,
            "width": 1,
            "marker": {
                "color": [get_cell_color(None if share is None else share / far) for share in row],
                "line": {"width": 0},
            },
            "hovertext": list(_format_hovers(grid, name, place)),
            "customdata": _list_ranks(grid, name, place),
            "hovertemplate": f"<b>{_format_rows(grid, place)}, {_format_steps(grid)}</b><br>"
            f"{escape_text(name)} %{{hovertext}}<extra></extra>",
        }
        for place, row in enumerate(away)
    ]
    few = len(away) <= _NAMED
    stride = max(1, len(away) // 8)
    rows = range(len(away)) if few else range(0, len(away), stride)
    return build_figure(
        traces,
        height=_compute_height(len(away)),
        barmode="overlay",
        barcornerradius=0,
        bargap=0,
        margin={"l": 110, "r": 12, "t": 8, "b": 44},
        xaxis={
            "title": {"text": "step"},
            "type": "category",
            "tickvals": columns[:: max(1, -(-len(columns) // 8))],
            "range": [-0.5, len(columns) - 0.5],
            "showgrid": False,
            "zeroline": False,
        },
        yaxis={
            "tickvals": [row + 0.46 for row in rows],
            "ticktext": [escape_text(grid.ranks[row], 16) for row in rows],
            "range": [len(away), -0.04],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    )


def _compute_height(rows: int) -> int:
    return 60 + 30 * rows if rows <= 12 else _HEIGHT


def _format_hovers(grid: StepGrid, name: str, place: int) -> Iterator[str]:
    """The values of a row, with their ranks where it covers several."""
    worst = grid.worst_rank.get(name)
    for column, value in enumerate(grid.figures[name][place]):
        text = "unknown" if value is None else units.format_seconds(value)
        yield text if worst is None or value is None else f"{text}, {escape_text(worst[place][column], 24)}"


def _list_ranks(grid: StepGrid, name: str, place: int) -> list[str]:
    """The rank of each cell of a row, which a click picks on a page."""
    worst = grid.worst_rank.get(name)
    return [grid.ranks[place]] * len(grid.steps) if worst is None else list(worst[place])


def _format_rows(grid: StepGrid, place: int) -> str:
    first = escape_text(grid.ranks[place], 24)
    return first if grid.ranks_per_row == 1 else f"{first} and the next {grid.ranks_per_row - 1}"


def _format_steps(grid: StepGrid) -> str:
    return "step %{x}" if grid.steps_per_column == 1 else f"{grid.steps_per_column:,} steps from %{{x}}"


def _compute_share(seconds: float, step: float) -> float:
    return seconds / step if step > 0 else 0.0
