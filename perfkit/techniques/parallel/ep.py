"""`ep`: expert parallelism. Each rank has some of the experts of every layer, and tokens travel to theirs."""

from functools import partial
from typing import Annotated, ClassVar

import msgspec

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import BASELINE
from perfkit.techniques.base.conflict import RELAXED, Conflict, make_conflicts
from perfkit.techniques.base.planning import OF_COLLECTIVES, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, Purpose, RankRequirement, Stage, Technique
from perfkit.techniques.base.trial import run_trial_forward
from perfkit.techniques.parallel.expert_parallel import check_experts, measure_exchange, shard_experts
from perfkit.techniques.parallel.zero1 import SLACK

# Facts.
_CALLS, _BACKWARD, _BYTES = "expert_exchanges", "backward_expert_exchanges", "expert_exchanged_bytes"
_HELD, _AVERAGED = "dealt_parameter_bytes", "dealt_gradient_bytes"
_HELD_AS = (("parameters", "parameter_bytes"), ("gradients", "gradient_bytes"))
_UNSHARDED = "unsharded_parameter_bytes"
# The ranks that have the same experts, as the mesh calls their line.
_REPLICAS = "ep_replicate"
_SLOTS = "experts_have_slots"
_ALL_TO_ALL = "_c10d_functional::all_to_all_single"


class Ep(Technique):
    """Distributes the experts of every layer over the ranks; all else is data parallelism.

    Each rank sends its tokens to the ranks that have their experts and gets the results back: two all-to-alls per
    layer in forward and two in backward, of experts x slots x width, filled or not. Routing is each rank's own, so
    losses are those of data parallelism. With `size=N` experts are distributed over groups of N neighboring ranks, and
    the groups are replicas. Other parameters are averaged by `ddp`, or sharded by `zero2` or `zero3`.

    `Workload(expert_parallel=...)` names the expert modules. Experts that take tokens, choices and weights
    (Transformers') drop no token: ranks first exchange counts.
    """

    name: ClassVar[str] = "ep"
    summary: ClassVar[str] = "expert parallel: each rank holds some of the experts, tokens reach theirs by all-to-all"
    when: ClassVar[str] = "when a mixture's experts fill the memory of each of several ranks"
    costs: ClassVar[str] = "four all-to-alls of tokens per layer, and waiting for the busiest rank"
    paper: ClassVar[str] = (
        "Lepikhin et al., GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding, ICLR 2021, "
        "https://arxiv.org/abs/2006.16668; Fedus et al., Switch Transformers: Scaling to Trillion Parameter Models "
        "with Simple and Efficient Sparsity, JMLR 2022, https://arxiv.org/abs/2101.03961"
    )
    stage: ClassVar[Stage] = Stage.PARALLEL
    purpose: ClassVar[Purpose] = Purpose.RANKS
    purpose_place: ClassVar[int] = 3
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(OF_COLLECTIVES)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            "zero1",
            "ZeroRedundancyOptimizer sends each updated parameter to all ranks, and with ep each rank has other "
            "experts",
        ),
        Conflict(
            "hsdp",
            "the check of hsdp needs all gradients summed over its replicas, and ep averages those of experts "
            "itself; use ep+zero2 or ep+zero3",
        ),
        Conflict("tp", "no workload's tensor-parallel plan covers experts"),
        *make_conflicts(RELAXED, "ranks have different experts, which must not be averaged"),
        Conflict("amp:dtype=fp16", "an overflow in one rank's experts would skip the update on that rank alone"),
    )
    min_world_size: ClassVar[int] = 2

    size: Annotated[int, msgspec.Meta(ge=2, description="ranks to divide the experts over; default all")] | None = None

    def ranks(self) -> RankRequirement:
        return RankRequirement(self.size or self.min_world_size, self.size or 1)

    def apply(self, state: TrainState) -> TrainState:
        experts_of = state.workload.expert_parallel
        if experts_of is None:
            raise UnavailableError(
                f"the workload {state.workload.name} does not name its expert modules (expert_parallel)"
            )
        ranks = self._count_expert_ranks(state)
        names = experts_of(state.model)
        check_experts(state.model, names, ranks)
        exchange = measure_exchange(state.model, names, partial(run_trial_forward, state))
        before = {name: parameter.nbytes for name, parameter in state.model.named_parameters()}
        mesh = state.mesh.divide_dimension("dp", ranks, (_REPLICAS, "ep"))
        for name in names:
            experts = state.model.get_submodule(name)
            state.dealt |= {f"{name}.{parameter_name}": ranks for parameter_name, _ in experts.named_parameters()}
            groups = (state.mesh.group("dp"), mesh.get_group("ep"), mesh.get_group(_REPLICAS))
            shard_experts(experts, *groups, slots=exchange.slots)
        kept_bytes = sum(nbytes // state.dealt.get(name, 1) for name, nbytes in before.items())
        averaged = sum(parameter.nbytes for parameter in state.dealt_parameters if parameter.requires_grad)
        passes = state.accumulation * state.microbatches
        state.parameter_share *= kept_bytes / sum(before.values())
        state.facts |= {
            _CALLS: float(exchange.calls * passes),
            _BACKWARD: float(exchange.backward * passes),
            _BYTES: float(exchange.bytes * state.accumulation),
            _SLOTS: float(exchange.slots),
            _HELD: float(kept_bytes),
            _AVERAGED: float(averaged * passes),
        }
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        ranks = self._count_expert_ranks(state)
        part = f"a rank holds 1/{ranks} of the experts, and"
        shares = [(f"{part} the {what} of the rest", fact) for what, fact in _HELD_AS]
        if _UNSHARDED in state.facts:  # the sharding's claims cover the rest
            shares = [(f"{part} all of the rest before it is sharded", _UNSHARDED)]
        least = partial(self._make_claim, relation=Relation.AT_LEAST, value=1.0)
        # Blocks that run again send their tokens again; of microbatches each has its slots rounded up. Without slots a
        # rank sends as many, and may be sent more.
        exact = state.facts.get(_SLOTS, 1.0) and not state.checkpointed and state.microbatches == 1
        same = partial(self._make_claim, relation=Relation.EQUAL if exact else Relation.AT_LEAST, value=1.0)
        claims = [self._make_claim(statement, fact, Relation.AT_MOST, 1.0, _HELD) for statement, fact in shares]
        claims += [
            self._make_claim(
                f"{part} the optimizer state of the rest",
                "optimizer_state_bytes",
                Relation.AT_MOST,
                state.parameter_share + SLACK,
                BASELINE,
            ),
            least("tokens go to their experts and back", f"op_calls:{_ALL_TO_ALL}", relative_to=_CALLS),
            least("backward sends their gradients", f"backward_op_calls:{_ALL_TO_ALL}", relative_to=_BACKWARD),
            same("all tokens are sent, there and back", "collective_bytes:all-to-all:ep", relative_to=_BYTES),
        ]
        if ranks < state.mesh.size("dp"):
            summed = "gradients of experts are summed over their replicas"
            claims.append(least(summed, f"collective_bytes:all-reduce:{_REPLICAS}", relative_to=_AVERAGED))
        return tuple(claims)

    def _count_expert_ranks(self, state: TrainState) -> int:
        """Count the ranks that share the experts of a layer."""
        return self.size or state.mesh.size("dp")
