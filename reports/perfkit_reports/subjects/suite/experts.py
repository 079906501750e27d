"""Expert load balance and dropped tokens."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core.record.rank_record import ExpertLoad
from perfkit.core.units import format_percent
from perfkit_reports.charts import expert_loads
from perfkit_reports.document.blocks import Block, Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column

_MEANING = (
    "An expert's load is the number of tokens sent to it. Tokens that no expert takes are dropped and bypass the layer."
)
_AFTER = (
    "Measured on one batch per rank after the timed steps; variants may have trained for different numbers of steps."
)
_ATTACHED = "Measured on each router's first call in one warm-up step."


def build_sections(analysis: Analysis) -> Iterator[Section]:
    """The section; none without known routers."""
    variants = [variant for variant in analysis.variants if variant.expert_loads]
    if not variants:
        return
    first = next((variant for variant in variants if variant.is_baseline), variants[0])
    chart = expert_loads.build_chart(first.name, first.expert_loads)
    basis = _AFTER if first.loop is None else _ATTACHED
    yield Section("experts", "Experts", (_build_table(variants), chart), intro=(basis, _MEANING))


def _build_table(variants: Sequence[Variant]) -> Table:
    return Table(
        id="expert-loads",
        title="Expert load",
        columns=[
            Column("Variant", lambda variant: Cell(variant.name, value=variant.name), numeric=False),
            Column("Busiest expert", _make_busiest_cell),
            Column("Dropped tokens", _make_dropped_cell),
            Column("Auxiliary loss", _make_auxiliary_cell),
        ],
        rows=variants,
        what="variant",
        data="experts",
        caption=(
            "The busiest expert's load is relative to its layer's mean. The auxiliary loss is unweighted; 1 means "
            "an even load."
        ),
        emphasis=lambda variant: variant.is_baseline,
        details=_build_layers,
    )


def _make_busiest_cell(variant: Variant) -> Cell:
    worst = max(variant.expert_loads, key=expert_loads.compute_imbalance)
    mean = fmean(map(expert_loads.compute_imbalance, variant.expert_loads))
    return Cell(
        f"{mean:.2f}× the mean",
        detail=f"up to {expert_loads.compute_imbalance(worst):.2f}× in {worst.layer}",
        value=mean,
    )


def _make_dropped_cell(variant: Variant) -> Cell:
    worst = max(variant.expert_loads, key=_compute_dropped_share)
    share = sum(load.dropped_tokens for load in variant.expert_loads) / sum(
        load.tokens for load in variant.expert_loads
    )
    return Cell(
        format_percent(share),
        detail=f"up to {format_percent(_compute_dropped_share(worst))} in {worst.layer}" if share else "",
        value=share,
    )


def _make_auxiliary_cell(variant: Variant) -> Cell:
    losses = [load.auxiliary_loss for load in variant.expert_loads if load.auxiliary_loss is not None]
    return (
        Cell(f"{fmean(losses):.3f}", detail="mean over its layers", value=fmean(losses))
        if losses
        else make_unknown_cell(_NONE)
    )


_NONE = "not reported by its routers"


def _compute_dropped_share(load: ExpertLoad) -> float:
    return load.dropped_tokens / load.tokens


def _build_layers(variant: Variant) -> Sequence[Block]:
    table = Table(
        id=f"expert-layers-{variant.name}",
        title="Layers",
        columns=[
            Column("Layer", lambda load: Cell(load.layer), numeric=False),
            Column("Tokens per expert", lambda load: Cell(", ".join(f"{sent:,}" for sent in load.routed_tokens))),
            Column("Busiest expert", lambda load: Cell(f"{expert_loads.compute_imbalance(load):.2f}× the mean")),
            Column(
                "Dropped tokens",
                lambda load: Cell(format_percent(_compute_dropped_share(load)), detail=f"{load.dropped_tokens:,}"),
            ),
            Column("Auxiliary loss", _make_layer_auxiliary_cell),
        ],
        rows=variant.expert_loads,
        what="layer",
        show_title=False,
    )
    return (table,)


def _make_layer_auxiliary_cell(load: ExpertLoad) -> Cell:
    return make_unknown_cell(_NONE) if load.auxiliary_loss is None else Cell(f"{load.auxiliary_loss:.3f}")
