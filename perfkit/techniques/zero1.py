"""`zero1`: optimizer state is sharded over the ranks (ZeRO stage 1, arXiv 1910.02054, section 5.1)."""

from collections.abc import Iterable
from typing import ClassVar

from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim import Optimizer

from perfkit.record import Claim, Relation
from perfkit.techniques.ddp import averages_gradients, replicate
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Stage, Technique

# Scalars that an optimizer keeps for every parameter, such as AdamW's step.
SLACK = 0.01


class Zero1(Technique):
    name: ClassVar[str] = "zero1"
    summary: ClassVar[str] = "optimizer state over the ranks (ZeroRedundancyOptimizer)"
    stage: ClassVar[Stage] = Stage.SHARD
    min_world_size: ClassVar[int] = 2

    def apply(self, state: TrainState) -> TrainState:
        inner = state.make_optimizer

        def make_optimizer(parameters: Iterable[nn.Parameter]) -> Optimizer:
            # Any callable that takes parameters serves as the local optimizer's class.
            return ZeroRedundancyOptimizer(parameters, optimizer_class=inner)  # type: ignore[arg-type]

        state = replicate(state)
        state.make_optimizer = make_optimizer
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        sizes = [parameter.numel() for parameter in state.bare_model.parameters() if parameter.requires_grad]
        return (
            Claim(
                technique=self.name,
                statement=f"a rank holds its part of 1/{state.world.size} of the optimizer state, in whole tensors",
                fact="optimizer_state_bytes",
                relation=Relation.AT_MOST,
                value=largest_share(sizes, state.world.size) + SLACK,
                relative_to="baseline",
            ),
            averages_gradients(self.name),
        )


def largest_share(sizes: Iterable[int], ranks: int) -> float:
    """The largest rank's share when tensors are sharded whole, the largest first, each to the emptiest rank.

    This is ZeroRedundancyOptimizer's rule. It is 1/ranks where sizes allow it, and more where one tensor is larger.
    """
    loads = [0] * ranks
    for size in sorted(sizes, reverse=True):
        loads[loads.index(min(loads))] += size
    return max(loads) / sum(loads)
