"""Pipeline schedules: the ranks' actions, and measured and theoretical bubbles."""

from collections.abc import Iterable, Iterator

from perfkit.analysis.model.fleet import Pipeline, PipelineRank
from perfkit.core import units
from perfkit.core.record.quantity import Unknown
from perfkit_reports.charts import pipeline as chart
from perfkit_reports.document.blocks import Block, Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column

_INTRO = (
    (
        "The bubble is the share of a pipeline's time in which a rank computes nothing and waits for activations or "
        "gradients."
    ),
)
_WAITS = "Boxes are torch's annotations and include the wait for a stage's inputs."


def build_sections(pipelines: Iterable[tuple[str, Pipeline]]) -> Iterator[Section]:
    """One section for all `pipelines`; none without any."""
    blocks: list[Block] = []
    for place, (name, pipeline) in enumerate(pipelines):
        table = _build_table(name, pipeline, place)
        blocks += [chart.build_chart(pipeline, str(place), f"{name}, step {pipeline.step}", table), table]
    if blocks:
        yield Section("pipelines", "Pipeline", tuple(blocks), intro=_INTRO)


def _build_table(name: str, pipeline: Pipeline, place: int) -> Table:
    expected = pipeline.expected_bubble
    theory = (
        Cell(units.format_percent(expected), value=expected)
        if expected is not None
        else make_unknown_cell(f"no theoretical bubble: {pipeline.source}")
    )
    columns = [
        Column[PipelineRank]("Rank", lambda rank: Cell(f"rank {rank.rank}"), numeric=False),
        Column[PipelineRank]("Stages", _make_stages_cell, numeric=False),
        Column[PipelineRank]("Measured bubble", _make_bubble_cell, help="in the timed steps, without recording"),
        Column[PipelineRank]("Bubble, theoretical", lambda _rank: theory),
        Column[PipelineRank](
            "Wait in shown step",
            lambda rank: Cell(units.format_percent(rank.idle_share), value=rank.idle_share),
            help="from the first to the last action of any rank",
        ),
    ]
    sentences = [
        f"Theory: {pipeline.source}." if expected is not None else "",
        _WAITS if pipeline.includes_waits else "",
    ]
    return Table(
        id=f"pipeline-ranks-{place}",
        title=f"Ranks of {name}",
        columns=columns if pipeline.source else [columns[0], columns[1], columns[4]],
        rows=pipeline.ranks,
        what="rank",
        caption=" ".join(filter(None, sentences)),
    )


def _make_stages_cell(rank: PipelineRank) -> Cell:
    return Cell(", ".join(map(str, sorted({action.stage for action in rank.actions}))))


def _make_bubble_cell(rank: PipelineRank) -> Cell:
    if isinstance(rank.bubble, Unknown):
        return make_unknown_cell(rank.bubble.reason)
    return Cell(units.format_percent(rank.bubble.value), value=rank.bubble.value)
