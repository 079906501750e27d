"""The load of experts over all ranks."""

from collections.abc import Sequence
from statistics import fmean

from perfkit.core.record import ExpertLoad, RankRecord


def sum_expert_loads(records: Sequence[RankRecord]) -> tuple[ExpertLoad, ...]:
    """Sum the routing of all ranks' batches, layer by layer.

    Nothing where ranks have other layers than the first: then there is no whole.
    """
    layers = {tuple(load.layer for load in record.expert_loads) for record in records}
    if len(layers) != 1:
        return ()
    return tuple(map(_merge_loads, zip(*(record.expert_loads for record in records), strict=True)))


def _merge_loads(ranks: Sequence[ExpertLoad]) -> ExpertLoad:
    losses = [load.auxiliary_loss for load in ranks if load.auxiliary_loss is not None]
    return ExpertLoad(
        layer=ranks[0].layer,
        tokens=sum(load.tokens for load in ranks),
        routed_tokens=tuple(map(sum, zip(*(load.routed_tokens for load in ranks), strict=True))),
        accepted_tokens=tuple(map(sum, zip(*(load.accepted_tokens for load in ranks), strict=True))),
        dropped_tokens=sum(load.dropped_tokens for load in ranks),
        auxiliary_loss=fmean(losses) if losses else None,
    )
