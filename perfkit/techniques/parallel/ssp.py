"""`ssp`: stale-synchronous parallel. Gradients are summed while the next steps compute, and applied some steps late."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count, groupby
from typing import Annotated, ClassVar, NamedTuple

import msgspec
import torch
import torch.distributed as dist
from torch.optim import Optimizer

from perfkit.core.allocations import OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.base.conflict import REDUCED_LAST, SHARDED, WITHOUT_WAITING, Conflict, make_conflicts
from perfkit.techniques.base.planning import UNKNOWN_EFFECT, Planning
from perfkit.techniques.base.state import Closure, TrainState
from perfkit.techniques.base.technique import PlanMode, PlanSupport, Purpose, Stage, Technique

_STALENESS = "staleness"


class Ssp(Technique):
    """Applies gradients `staleness` steps late: they are summed over the ranks meanwhile (`all_reduce(async_op=True)`).

    This is stale-synchronous training at its bound, as in Pipe-SGD: every gradient is exactly that late, so all ranks
    make the same updates and runs repeat. The first `staleness` steps update nothing. A rank keeps the gradients of as
    many steps; buffers are each rank's own. Losses follow another trajectory, which the report shows over steps and
    over time.
    """

    name: ClassVar[str] = "ssp"
    summary: ClassVar[str] = "stale-synchronous: gradients are summed during the next steps and applied late"
    when: ClassVar[str] = "when averaging gradients takes as long as computing them, and some staleness is acceptable"
    costs: ClassVar[str] = "gradients of older parameters; a gradient's bytes per step of staleness"
    paper: ClassVar[str] = (
        "Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NeurIPS 2013, "
        "https://papers.nips.cc/paper/4894; Li et al., Pipe-SGD: A Decentralized Pipelined SGD Framework for "
        "Distributed Deep Net Training, NeurIPS 2018, https://arxiv.org/abs/1811.03619"
    )
    examples: ClassVar[tuple[str, ...]] = ("ssp", "ssp:staleness=2")
    stage: ClassVar[Stage] = Stage.SHARD
    purpose: ClassVar[Purpose] = Purpose.RANKS
    purpose_place: ClassVar[int] = 4
    planning: ClassVar[Planning] = Planning(UNKNOWN_EFFECT)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *make_conflicts(("ddp", *SHARDED), WITHOUT_WAITING),
        Conflict("tp", "ssp averages over all ranks, and tp divides them"),
        Conflict("pp", "ssp averages over all ranks, and pp divides them"),
        Conflict("amp:dtype=fp16", "gradients are applied late, when the scale may have changed"),
        Conflict("optim_in_backward", REDUCED_LAST),
    )
    min_world_size: ClassVar[int] = 2

    staleness: Annotated[int, msgspec.Meta(ge=1, description="steps between a gradient and its update")] = 1

    def plannable(self) -> PlanSupport:
        return PlanSupport(PlanMode.NOT, "gradients of several steps are held, and a plan covers one step")

    def apply(self, state: TrainState) -> TrainState:
        if not state.mesh.is_whole("dp"):
            raise UnavailableError("ssp sums gradients over all ranks, and other techniques divide them")
        if state.workload.step is not None:
            raise UnavailableError(
                f"the workload {state.workload.name} defines its own step, with its own updates", id="skip.own_step"
            )
        with torch.no_grad():
            for tensor in (*state.model.parameters(), *state.model.buffers()):
                dist.broadcast(tensor, 0)
        state.facts[_STALENESS] = 0.0
        state.optimizer_step = make_late_update(state.optimizer_step, self.staleness, state.world.size, state.facts)
        state.gradients_reduced = True
        state.settles_after = self.staleness
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        late = "gradients are applied late by the given number of steps"
        sent = "all gradients are sent once"
        return (
            self._make_claim(late, _STALENESS, Relation.EQUAL, float(self.staleness)),
            self._make_claim(sent, "collective_bytes:all-reduce", Relation.EQUAL, 1.0, "gradient_bytes"),
        )

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        trained = sum(parameter.nbytes for parameter in state.model.parameters() if parameter.requires_grad)
        return {OTHER: float(self.staleness * trained)}  # the gradients under way

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis=f"gradients are applied late, with staleness {self.staleness}")


class _GradientSum(NamedTuple):
    """Gradients of one dtype on their way."""

    parameters: list[torch.Tensor]
    flat: torch.Tensor
    work: dist.Work


Update = Callable[[Optimizer, Closure | None], object]


def make_late_update(update: Update, staleness: int, ranks: int, facts: dict[str, float]) -> Update:
    """Make `update` use the mean gradients of `staleness` steps ago.

    `facts` receive the age of the gradients applied last.
    """
    under_way: dict[Optimizer, deque[tuple[int, list[_GradientSum]]]] = {}
    steps: dict[Optimizer, count[int]] = {}

    def late(optimizer: Optimizer, closure: Closure | None) -> object:
        if closure is not None:
            raise UnavailableError(
                f"{type(optimizer).__name__} evaluates the loss within its update, which ssp delays", id="skip.closure"
            )
        sums = under_way.setdefault(optimizer, deque())
        now = next(steps.setdefault(optimizer, count()))
        sums.append(
            (now, _start_reduction(parameter for group in optimizer.param_groups for parameter in group["params"]))
        )
        if len(sums) <= staleness:
            return None
        started, arriving = sums.popleft()
        for reduction in arriving:
            reduction.work.wait()
            parts = reduction.flat.div_(ranks).split([parameter.numel() for parameter in reduction.parameters])
            for parameter, part in zip(reduction.parameters, parts, strict=True):
                parameter.grad = part.view_as(parameter)
        facts[_STALENESS] = float(now - started)
        return update(optimizer, None)

    return late


def _start_reduction(parameters: Iterable[torch.Tensor]) -> list[_GradientSum]:
    """Start summing the existing gradients, in one tensor per dtype."""
    with_gradient = sorted(
        (parameter for parameter in parameters if parameter.grad is not None),
        key=lambda parameter: str(parameter.dtype),
    )
    sums = []
    for _, of_dtype in groupby(with_gradient, key=lambda parameter: parameter.dtype):
        group = list(of_dtype)
        flat = torch.cat([parameter.grad.flatten() for parameter in group if parameter.grad is not None])
        work = dist.all_reduce(flat, async_op=True)
        assert work is not None
        sums.append(_GradientSum(group, flat, work))
    return sums
