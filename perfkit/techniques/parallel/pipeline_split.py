"""Assigns parameters and buffers of a model to pipeline stages, and stages to ranks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import nn

from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.parallel.pipeline_cut import BlockRange, ObservedForward
from perfkit.techniques.parallel.pipeline_schedules import ScheduleKind, get_stage_rank, list_rank_stages


class PipelineSplit:
    """A model split into pipeline stages over the ranks, with the same number of stages each.

    Attributes:
        parts: the blocks of each stage.
        own: the stages of this rank.
    """

    def __init__(
        self,
        model: nn.Module,
        seen: ObservedForward,
        parts: Sequence[BlockRange],
        kind: ScheduleKind,
        rank: int,
        ranks: int,
    ) -> None:
        self.parts = tuple(parts)
        self._kind, self._ranks, self._each = kind, ranks, len(parts) // ranks
        self.own = self.list_stages(rank)
        self._model = model
        stage_of = [stage for stage, part in enumerate(parts) for _ in range(*part)]
        tensors = (*model.parameters(), *model.buffers())
        self._stages = {tensor: {stage_of[place] for place in seen.places(tensor)} for tensor in tensors}

    def list_stages(self, rank: int) -> tuple[int, ...]:
        """The stages of a rank."""
        return list_rank_stages(self._kind, rank, self._ranks, self._each)

    def get_rank(self, stage: int) -> int:
        """The rank that a stage is on."""
        return get_stage_rank(self._kind, stage, self._ranks)

    def is_kept(self, tensor: torch.Tensor) -> bool:
        """True if a stage of this rank uses a parameter or buffer."""
        return not self._stages[tensor].isdisjoint(self.own)

    def parameters(self, stages: Iterable[int], trained: bool = False) -> Iterator[nn.Parameter]:
        """Those that any of these stages uses; if `trained`, those of them that take gradients."""
        wanted = set(stages)
        for parameter in self._model.parameters():
            if not self._stages[parameter].isdisjoint(wanted) and (parameter.requires_grad or not trained):
                yield parameter

    def count_bytes(self, stages: Iterable[int], trained: bool = False) -> int:
        """Bytes of the same."""
        return sum(get_local_part(parameter).nbytes for parameter in self.parameters(stages, trained))

    def find_shared(self) -> dict[tuple[int, ...], tuple[nn.Parameter, ...]]:
        """Parameters that take gradients from stages of several ranks, by these ranks."""
        shared: dict[tuple[int, ...], tuple[nn.Parameter, ...]] = {}
        for parameter in self._model.parameters():
            ranks = tuple(sorted({self.get_rank(stage) for stage in self._stages[parameter]}))
            if len(ranks) > 1 and parameter.requires_grad:
                shared[ranks] = (*shared.get(ranks, ()), parameter)
        return shared

    def list_boundaries(self, rank: int) -> list[int]:
        """Stages that exchange with the one behind them over the network, where one of both is on this rank."""
        pairs = [(stage, {self.get_rank(stage), self.get_rank(stage + 1)}) for stage in range(len(self.parts) - 1)]
        return [stage for stage, ranks in pairs if len(ranks) == 2 and rank in ranks]


class RankStages(NamedTuple):
    """The stages of this rank among those of all ranks.

    Attributes:
        name: of the schedule.
        own: the stages of this rank.
        total: how many all ranks have.
        rank: this one's place among the ranks of the pipeline.
        ranks: how many these are.
        boundaries: the activations that each stage but the last sends on, of which only the layout counts.
        parameters: by stage of this rank those that it uses.
        last: the rank of the last stage.
        samples: of a microbatch.
    """

    name: str
    own: tuple[int, ...]
    total: int
    rank: int
    ranks: int
    boundaries: Sequence[torch.Tensor]
    parameters: dict[int, tuple[nn.Parameter, ...]]
    last: int
    samples: int
