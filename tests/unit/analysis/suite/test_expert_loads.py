"""The load of experts over ranks."""

from perfkit.analysis.suite.expert_loads import sum_expert_loads
from perfkit.core.record import ExpertLoad, RankRecord, RunStatus


def rank(number: int, *loads: ExpertLoad) -> RankRecord:
    return RankRecord(rank=number, world_size=2, status=RunStatus.OK, expert_loads=loads)


def load(layer: str, sent: tuple[int, ...], dropped: int, auxiliary: float | None) -> ExpertLoad:
    taken = tuple(min(each, 4) for each in sent)
    return ExpertLoad(
        layer=layer,
        tokens=8,
        routed_tokens=sent,
        accepted_tokens=taken,
        dropped_tokens=dropped,
        auxiliary_loss=auxiliary,
    )


def test_tokens_add_up_and_losses_are_averaged():
    ranks = [rank(0, load("0", (5, 3), 1, 1.5), load("1", (4, 4), 0, None)), rank(1, load("0", (2, 6), 2, 1.0))]
    assert sum_expert_loads(ranks) == ()  # ranks with other layers have no whole
    ranks[1] = rank(1, load("0", (2, 6), 2, 1.0), load("1", (8, 0), 4, None))
    assert sum_expert_loads(ranks) == (
        ExpertLoad(
            layer="0", tokens=16, routed_tokens=(7, 9), accepted_tokens=(6, 7), dropped_tokens=3, auxiliary_loss=1.25
        ),
        ExpertLoad(
            layer="1", tokens=16, routed_tokens=(12, 4), accepted_tokens=(8, 4), dropped_tokens=4, auxiliary_loss=None
        ),
    )


def test_models_without_experts_have_none():
    assert sum_expert_loads([rank(0), rank(1)]) == ()
    assert sum_expert_loads([]) == ()
