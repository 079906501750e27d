"""`zero1`: optimizer state is sharded over the ranks (ZeRO stage 1, arXiv 1910.02054, section 5.1)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim import Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.base.conflict import FULLY_SHARDED, OTHER_STAGE, REDUCED_LAST, Conflict, make_conflicts
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import OF_COLLECTIVES, Counted, MemoryPrice, MemorySaving, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanSupport, Purpose, Stage, Technique
from perfkit.techniques.parallel.ddp import list_sparse_parameters, make_averaging_claim, wrap_in_ddp
from perfkit.techniques.parallel.deepspeed_zero import (
    PLANNED,
    UNLIMITED,
    Engine,
    get_package,
    make_deepspeed_conflicts,
    make_sharding_claims,
    shard_with_deepspeed,
)

# Scalars that an optimizer keeps for every parameter, such as AdamW's step.
SLACK = 0.01

ZERO = (
    "Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020, "
    "https://arxiv.org/abs/1910.02054"
)


class Zero1(Technique):
    """Optimizer state is sharded over the ranks in whole tensors (`ZeroRedundancyOptimizer`, with DDP).

    Parameter groups keep their options, and each of several optimizers is sharded separately. A rank holds 1/N where
    sizes allow it: the largest tensors go first, to the emptiest rank.

    `engine=deepspeed` is DeepSpeed's stage 1, whose slices cut through tensors: 1/N. Each rank keeps a copy of its
    slice of the parameters. It takes torch's Adam or AdamW in fp32 and does not clip gradients. On a CPU it compiles
    an extension once (half a minute to two), with `ninja` and a C++ compiler. On GPUs it is untested. `pip install
    deepspeed`.
    """

    name: ClassVar[str] = "zero1"
    summary: ClassVar[str] = "optimizer state sharded over the ranks (ZeroRedundancyOptimizer or DeepSpeed)"
    when: ClassVar[str] = "when optimizer state fills the memory of each of several ranks"
    costs: ClassVar[str] = "network traffic for all updated parameters after every step"
    paper: ClassVar[str] = ZERO
    stage: ClassVar[Stage] = Stage.SHARD
    purpose: ClassVar[Purpose] = Purpose.RANKS
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    advice: ClassVar[tuple[str, ...]] = ("memory.optimizer_state",)
    planning: ClassVar[Planning] = Planning(
        OF_COLLECTIVES,
        Counted.ALL,
        (MemorySaving(MemoryPrice.SHARDS, tried=("zero1",), searched=("zero1",)),),
        zero_stage=1,
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *make_conflicts(FULLY_SHARDED, OTHER_STAGE),
        *make_deepspeed_conflicts(),
        Conflict("optim_in_backward", REDUCED_LAST),
    )
    examples: ClassVar[tuple[str, ...]] = ("zero1", "zero1:engine=deepspeed")
    min_world_size: ClassVar[int] = 2

    engine: Engine = "torch"

    def package(self) -> Package | None:
        return get_package(self.engine)

    def plannable(self) -> PlanSupport:
        return PLANNED if self.engine == "deepspeed" else super().plannable()

    def apply(self, state: TrainState) -> TrainState:
        if self.engine == "deepspeed":
            return shard_with_deepspeed(state, self.planning.zero_stage)
        state = wrap_in_ddp(state)
        state.optimizer_changes.append(shard_optimizer)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.engine == "deepspeed":
            return make_sharding_claims(self.name, self.planning.zero_stage, state)
        ranks = state.mesh.size("dp")
        shares = [
            compute_largest_share(
                [
                    [(parameter.numel(), parameter not in state.unreached_parameters) for parameter in group["params"]]
                    for group in optimizer.param_groups
                ],
                ranks,
            )
            for optimizer in state.optimizers.values()
        ]
        claims = [
            Claim(
                technique=self.name,
                statement=f"a rank holds its part of 1/{ranks} of the optimizer state, in whole tensors",
                fact="optimizer_state_bytes",
                relation=Relation.AT_MOST,
                # For each optimizer, hence for the total.
                value=max(shares) + SLACK,
                relative_to="baseline",
            ),
            make_averaging_claim(self.name),
        ]
        # Experts' gradients stay with their ranks, and sparse gradients grow when they are summed.
        if state.workload.step is None and not state.dealt and not list_sparse_parameters(state):
            claims.append(
                self._make_claim(
                    "all gradients are sent",
                    "collective_bytes:all-reduce",
                    Relation.AT_LEAST,
                    1.0,
                    "gradient_bytes",
                    whole=True,
                    counted="gradients",
                )
            )
        return tuple(claims)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return UNLIMITED if self.engine == "deepspeed" else {}


class _ShardedOptimizer(ZeroRedundancyOptimizer):
    """Not for an optimizer that evaluates the loss itself: ranks with different parameters would not do so equally
    often, and wait for each other's gradients."""

    def step(self, closure: Callable[[], Any] | None = None, **options: Any) -> Any:
        if closure is not None:
            raise UnavailableError(
                f"zero1 gives each rank a part of the parameters, but {type(self.optim).__name__} updates all at once"
            )
        return super().step(**options)


def shard_optimizer(optimizer: Optimizer) -> Optimizer:
    """Shard an optimizer with ZeroRedundancyOptimizer, which keeps this rank's part of each parameter group.

    The optimizer is not rebuilt from a part of the parameters, since its builder may form other groups.
    """

    def keep(groups: Sequence[dict[str, Any]]) -> Optimizer:
        for group, part in zip(optimizer.param_groups, groups, strict=True):
            group["params"] = part["params"]
        own = {parameter for group in groups for parameter in group["params"]}
        for parameter in set(optimizer.state) - own:  # some optimizers make their state at once
            del optimizer.state[parameter]
        return optimizer

    # Names would no longer match the parameters.
    groups = [{key: value for key, value in group.items() if key != "param_names"} for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group.pop("param_names", None)
    return _ShardedOptimizer(groups, optimizer_class=keep)  # type: ignore[arg-type]


def compute_largest_share(groups: Iterable[Iterable[tuple[int, bool]]], ranks: int) -> float:
    """The largest rank's share of the optimizer state when tensors are sharded whole, the largest first, each to the
    emptiest rank. A tensor is its size, and whether it has a gradient: without one it is dealt, but has no state.

    This is ZeroRedundancyOptimizer's rule, by parameter groups. It is 1/ranks where sizes allow it, and more where one
    tensor is larger.
    """
    loads, held = [0] * ranks, [0] * ranks
    for tensors in groups:
        for size, is_trained in sorted(tensors, key=lambda tensor: -tensor[0]):
            emptiest = loads.index(min(loads))
            loads[emptiest] += size
            held[emptiest] += size * is_trained
    return max(held) / sum(held)
