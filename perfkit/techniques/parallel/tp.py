"""`tp`: tensor parallelism. Each rank has a part of every matrix, and all work on the same batch."""

from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import msgspec
import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel
from torch.optim import Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.cost.calls.collective import CollectiveType
from perfkit.techniques.base.conflict import Conflict, make_conflicts
from perfkit.techniques.base.mesh import Dimension
from perfkit.techniques.base.planning import OF_COLLECTIVES, Planning
from perfkit.techniques.base.rank_sharing import ModelParallel
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, Purpose, Stage
from perfkit.techniques.base.tensor_parallel import (
    COLUMNS,
    EXCHANGED,
    LAYERS,
    ROWS,
    find_exchanges,
    make_exchange_facts,
    measure_split,
    parallelize_model,
    splits_sequences,
)
from perfkit.techniques.base.trial import run_trial_forward
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.workload import Batch, TensorParallelSplit, Workload

# Facts.
_HELD = "split_parameter_bytes"
_SEQUENCES = "sequences_split"


class _SplitCollective(NamedTuple):
    """Collective of split layers: its op, its effect on activations, and the fact of its callers in backward."""

    kind: CollectiveType
    op: str
    done: str
    in_backward: str


# With sequence parallelism and without.
_COLLECTIVES = {
    True: (
        _SplitCollective(CollectiveType.ALL_GATHER, "_c10d_functional::all_gather_into_tensor", "gathered", ROWS),
        _SplitCollective(
            CollectiveType.REDUCE_SCATTER, "_c10d_functional::reduce_scatter_tensor", "summed into parts", COLUMNS
        ),
    ),
    False: (_SplitCollective(CollectiveType.ALL_REDUCE, "_c10d_functional::all_reduce", "summed", COLUMNS),),
}


class Tp(ModelParallel):
    """Splits the matrices of attention, MLP, embedding and output layer over all ranks (DTensor, `parallelize_module`).

    All ranks take the batch of all ranks of data parallelism, so losses are the same. A transformer block takes two
    all-reduces of the activations in forward and two in backward.

    - `sp=true` (sequence parallelism): norms and residuals work on a part of the sequence. Each all-reduce becomes an
      all-gather and a reduce-scatter: as many bytes, less memory.
    - `loss=true` (loss parallelism): each rank has the logits of a part of the vocabulary.

    The workload gives the plan (`Workload(tensor_parallel_plan=...)`). One that splits no sequences takes all-reduces.
    Optimizers update tensor by tensor (`foreach=False`).
    """

    name: ClassVar[str] = "tp"
    summary: ClassVar[str] = "tensor, sequence and loss parallel: each rank has a part of every matrix (DTensor)"
    when: ClassVar[str] = "when a layer is too large for a device, or a batch too small to split; needs fast links"
    costs: ClassVar[str] = "four transfers of activations per layer, with no overlapping compute"
    paper: ClassVar[str] = (
        "Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, 2019, "
        "https://arxiv.org/abs/1909.08053; Korthikanti et al., Reducing Activation Recomputation in Large Transformer "
        "Models, MLSys 2023, https://arxiv.org/abs/2205.05198"
    )
    examples: ClassVar[tuple[str, ...]] = ("tp", "tp:sp=false:loss=false")
    stage: ClassVar[Stage] = Stage.PARALLEL
    purpose: ClassVar[Purpose] = Purpose.RANKS
    purpose_place: ClassVar[int] = 1
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(OF_COLLECTIVES)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("zero1", "ZeroRedundancyOptimizer sends whole tensors, and split layers are DTensors"),
        *make_conflicts(
            ("fp8", "lora", "prune", "qat", "qlora", "sparse24"),
            "tp splits only plain linear layers and embeddings",
        ),
        *make_conflicts(
            ("amp:dtype=fp16", "optim:use=foreach", "optim:use=fused"),
            "split and whole parameters cannot share a kernel's tensor list",
        ),
        Conflict("fused_ce", "it multiplies by the whole output weight, and each rank has a part"),
        Conflict(
            "distill",
            "the teacher has all logits, and a rank only part of the model's; use tp:loss=false",
            when="loss=True",
        ),
    )
    min_world_size: ClassVar[int] = 2
    dimension: ClassVar[Dimension] = "tp"

    sp: Annotated[bool, msgspec.Meta(description="norms and residuals on parts of the sequence")] = True
    loss: Annotated[bool, msgspec.Meta(description="cross-entropy on parts of the vocabulary")] = True

    def apply(self, state: TrainState) -> TrainState:
        plan_of = state.workload.tensor_parallel_plan
        if plan_of is None:
            raise UnavailableError(
                f"the workload {state.workload.name} has no plan to split its layers (tensor_parallel_plan)"
            )
        ranks = state.mesh.size("tp")
        plan = plan_of(state.model, TensorParallelSplit(ranks, self.sp, self.loss))
        split = measure_split(state.model, plan, ranks)
        state.exchanges = find_exchanges(state.model, plan, partial(run_trial_forward, state))
        state.parameter_share *= split.parameter_bytes / sum(parameter.nbytes for parameter in state.model.parameters())
        parallelize_model(state.model, state.mesh.get_submesh("tp"), plan)
        if self.loss:
            state.enter(loss_parallel())
            state.workload = replace(state.workload, loss=partial(_compute_local_loss, state.workload))
        state.group_changes.append(_disable_foreach)
        batches = len(state.batches_of_ranks) * state.accumulation
        state.facts |= {
            _HELD: float(split.parameter_bytes),
            _SEQUENCES: float(splits_sequences(plan)),
            **make_exchange_facts(state.exchanges, batches),
        }
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        ranks = state.mesh.size("tp")
        shares = [("split matrix", "parameter_bytes"), ("gradient of one", "gradient_bytes")]
        if "unsharded_parameter_bytes" in state.facts:  # the sharding's claims cover the rest
            shares = [("split matrix before it is sharded", "unsharded_parameter_bytes")]
        claims = [
            self._make_claim(f"a rank holds 1/{ranks} of each {what}", fact, Relation.AT_MOST, 1.0, _HELD)
            for what, fact in shares
        ]
        least = partial(self._make_claim, relation=Relation.AT_LEAST, value=1.0)
        for collective in _COLLECTIVES[bool(state.facts.get(_SEQUENCES))]:
            done, in_backward = f"activations are {collective.done}", f"backward_op_calls:{collective.op}"
            claims += [
                least(f"{done} for every split layer", f"op_calls:{collective.op}", relative_to=LAYERS),
                least(f"{done} for gradients in backward", in_backward, relative_to=collective.in_backward),
                least(f"{done} whole, there and back", f"collective_bytes:{collective.kind}:tp", relative_to=EXCHANGED),
            ]
        return tuple(claims)


def _compute_local_loss(workload: Workload, model: nn.Module, batch: Batch) -> torch.Tensor:
    """The loss, which all ranks have, as a plain tensor."""
    loss = compute_loss(workload, model, batch)
    return loss.to_local() if isinstance(loss, DTensor) else loss


def _disable_foreach(optimizer: Optimizer) -> None:
    for group in optimizer.param_groups:
        group.update({option: False for option in ("foreach", "fused") if option in group})
