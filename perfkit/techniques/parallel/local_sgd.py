"""`local_sgd`: ranks train separately for some steps, then parameters are averaged over the ranks."""

from collections import OrderedDict
from typing import Annotated, ClassVar

import msgspec
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import ModelAverager, PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.nn.parallel import DistributedDataParallel

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.base.conflict import REDUCED_LAST, SHARDED, WITHOUT_WAITING, Conflict, make_conflicts
from perfkit.techniques.base.planning import UNKNOWN_EFFECT, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import PlanMode, PlanSupport, Purpose, RankRequirement, Stage, Technique
from perfkit.techniques.parallel.ddp import wrap_in_ddp

_SUMMED = "collective_bytes:all-reduce"


class LocalSgd(Technique):
    """Ranks train their own copies, which are averaged every `period` steps (torch's `post_localSGD_hook` and model
    averagers).

    Optimizer state and buffers are each rank's own. The first `warmup` steps average gradients, as `ddp` does. With
    `group=N`, neighboring ranks (those of a node) average their gradients in every step, and only the parameters go
    further; with `within=M` they average their parameters every `M` steps instead.

    A step sends the parameters' bytes / `period`. Whole periods are timed, and a step's time is their mean. Losses are
    the mean of the ranks' and follow another trajectory, which the report shows over steps and over time.
    """

    name: ClassVar[str] = "local_sgd"
    summary: ClassVar[str] = "each rank trains alone, and parameters are averaged every few steps"
    when: ClassVar[str] = "when the network is too slow to average gradients in every step"
    costs: ClassVar[str] = "drift between ranks, and updates from smaller batches"
    paper: ClassVar[str] = (
        "Lin et al., Don't Use Large Mini-Batches, Use Local SGD, ICLR 2020, https://arxiv.org/abs/1808.07217; Stich, "
        "Local SGD Converges Fast and Communicates Little, ICLR 2019, https://arxiv.org/abs/1805.09767"
    )
    examples: ClassVar[tuple[str, ...]] = ("local_sgd", "local_sgd:period=8:warmup=4")
    stage: ClassVar[Stage] = Stage.SHARD
    purpose: ClassVar[Purpose] = Purpose.RANKS
    purpose_place: ClassVar[int] = 4
    planning: ClassVar[Planning] = Planning(UNKNOWN_EFFECT)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *make_conflicts(("ddp", *SHARDED, "ssp"), WITHOUT_WAITING),
        Conflict("tp", "local_sgd averages over all ranks, and tp divides them"),
        Conflict("pp", "local_sgd averages over all ranks, and pp divides them"),
        Conflict("offload:what=parameters", "parameters are offloaded when they are averaged"),
        Conflict("optim_in_backward", REDUCED_LAST),
    )
    min_world_size: ClassVar[int] = 2

    period: Annotated[int, msgspec.Meta(ge=2, description="steps between averages over all ranks")] = 4
    warmup: Annotated[int, msgspec.Meta(ge=0, description="initial steps that average gradients")] = 0
    group: Annotated[int, msgspec.Meta(ge=1, description="ranks per group that averages more often")] = 1
    within: Annotated[
        int,
        msgspec.Meta(ge=1, description="steps between averages of a group's parameters; 1: gradients, in every step"),
    ] = 1

    def __post_init__(self) -> None:
        if self.within > 1 and self.group == 1:
            raise ValueError("within is of a group's ranks; also give group=N, such as group=2")
        if self.period % self.within or self.period == self.within:
            below = self.period // self.within * self.within
            fitting = [period for period in (below, below + self.within) if period > self.within] or [2 * self.within]
            raise ValueError(
                f"period={self.period} must be a larger multiple of within={self.within}; use "
                + " or ".join(f"period={period}" for period in fitting)
            )

    def ranks(self) -> RankRequirement:
        return RankRequirement(2 * self.group, self.group)

    @property
    def _gradients_in_groups(self) -> bool:
        return self.group > 1 and self.within == 1

    def plannable(self) -> PlanSupport:
        return PlanSupport(PlanMode.NOT, "a plan covers one step, and the steps of a period differ")

    def apply(self, state: TrainState) -> TrainState:
        if not state.mesh.is_whole("dp"):
            raise UnavailableError("local_sgd averages over all ranks, and other techniques divide them")
        if state.workload.step is not None:
            raise UnavailableError(
                f"the workload {state.workload.name} defines its own step, with its own updates", id="skip.own_step"
            )
        state = wrap_in_ddp(state)
        subgroup = dist.new_subgroups(self.group)[0] if self._gradients_in_groups else None
        for model in state.wrapped.values():
            assert isinstance(model, DistributedDataParallel)
            model.broadcast_buffers = False  # torch warns of the argument
            hook = PostLocalSGDState(None, subgroup, self.warmup, self._gradients_in_groups)
            model.register_comm_hook(hook, post_localSGD_hook)
        averager, before = self._make_averager(state.world.size), state.after_updates

        def average() -> None:
            before()
            averager.average_parameters(state.model.parameters())

        state.after_updates = average
        state.cycle, state.settles_after = self.period, self.warmup
        return state

    def _make_averager(self, ranks: int) -> ModelAverager:
        if self.within == 1:
            return PeriodicModelAverager(self.period, self.warmup)
        return HierarchicalModelAverager(OrderedDict([(self.within, self.group), (self.period, ranks)]), self.warmup)

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        trained = sum(parameter.nbytes for parameter in state.model.parameters() if parameter.requires_grad)
        every = self.within if self.within > 1 else self.period
        statement, sent = f"parameters are averaged once in {every} steps", self.period // every
        if self._gradients_in_groups:
            statement, sent = f"{statement}, and a group's gradients in each", sent + self.period
        return (self._make_claim(statement, _SUMMED, Relation.EQUAL, trained * sent / self.period),)

    def parity(self) -> ParityRule:
        basis = f"parameters are averaged over ranks only every {self.period} steps"
        return ParityRule(relative=None, basis=basis)
