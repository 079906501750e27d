"""A step of a pipeline: a row a stage of a rank, and in it a box for all that it computes of a microbatch."""

from perfkit.analysis.model.fleet import BACKWARD, FORWARD, OF_INPUTS, OF_WEIGHTS, Pipeline, StageAction
from perfkit.core import units
from perfkit_reports.charts import frame
from perfkit_reports.charts.frame import Figure, Trace, build_axis, choose_time_scale, format_hover
from perfkit_reports.document.blocks import Block, Chart
from perfkit_reports.palette import BLUE, GREEN, ORANGE, PINK, Fill

_IDLE = Fill("#d9dce1")
_LOOKS = {
    FORWARD: (Fill(BLUE), "#ffffff", "forward"),
    BACKWARD: (Fill(ORANGE), "#16181d", "backward"),
    OF_INPUTS: (Fill(PINK), "#16181d", "backward, gradients of inputs"),
    OF_WEIGHTS: (Fill(GREEN), "#ffffff", "backward, gradients of weights"),
}
Rows = dict[tuple[int, int], list[StageAction]]


def build_chart(pipeline: Pipeline, name: str, title: str = "", words: Block | None = None) -> Chart:
    """Build the chart; `name` distinguishes it from others of the document."""
    kinds = [kind for kind in _LOOKS if any(action.kind == kind for rank in pipeline.ranks for action in rank.actions)]
    return Chart(
        id=f"pipeline-{name}",
        title=title,
        figure=_build_figure(pipeline, kinds),
        label="Schedule of the stages in one step; the table has their waits",
        caption="Each box is a numbered microbatch; gray: the rank computes nothing of the stage.",
        height=56 * len(_group_actions(pipeline)) + 72,
        legend=[(_LOOKS[kind][2], _LOOKS[kind][0].color, _LOOKS[kind][0].pattern) for kind in kinds]
        + [("waiting", _IDLE.color, "")],
        words=words,
    )


def _group_actions(pipeline: Pipeline) -> Rows:
    """Actions by rank and stage."""
    rows: Rows = {}
    for rank in pipeline.ranks:
        for stage in sorted({action.stage for action in rank.actions}):
            rows[rank.rank, stage] = [action for action in rank.actions if action.stage == stage]
    return rows


def _build_figure(pipeline: Pipeline, kinds: list[str]) -> Figure:
    rows = _group_actions(pipeline)
    names = {place: f"rank {place[0]}, stage {place[1]}" for place in rows}
    scale, unit = choose_time_scale((pipeline.end_ns - pipeline.start_ns) / 1e9)
    whole = _scale_time(pipeline.end_ns - pipeline.start_ns, scale)
    waiting = [(name, whole, "") for name in names.values()]
    traces: list[Trace] = [
        frame.build_row_bars(_IDLE, waiting, base=[0.0] * len(waiting), hoverinfo="skip", name="waiting")
    ]
    for kind in kinds:
        fill, ink, label = _LOOKS[kind]
        chosen = [(place, action) for place, actions in rows.items() for action in actions if action.kind == kind]
        traces.append(
            frame.build_row_bars(
                fill,
                [
                    (
                        names[place],
                        _scale_time(action.end_ns - action.start_ns, scale),
                        _format_hover(names[place], action, label),
                    )
                    for place, action in chosen
                ],
                base=[_scale_time(action.start_ns - pipeline.start_ns, scale) for _, action in chosen],
                name=label,
                text=[str(action.microbatch) for _, action in chosen],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"color": ink, "size": 11},
            )
        )
        traces[-1]["marker"]["line"] = {"color": "#ffffff", "width": 1}
    return frame.build_row_figure(
        traces,
        list(names.values()),
        margin={"l": 8, "r": 16, "t": 24, "b": 48},
        barmode="overlay",
        barcornerradius=0,
        uniformtext={"minsize": 7, "mode": "hide"},
        xaxis=build_axis(f"time since the first action ({unit})", range=[0, whole]),
    )


def _format_hover(row: str, action: StageAction, label: str) -> str:
    took = units.format_seconds((action.end_ns - action.start_ns) / 1e9)
    return format_hover(f"microbatch {action.microbatch}, {label}", row, f"took {took}")


def _scale_time(time_ns: int, scale: float) -> float:
    return round(time_ns / 1e9 / scale, 5)
