"""FSDP2 (`fully_shard`): the sharding of `zero2`, `zero3` and `hsdp`, with the claims that prove it.

ZeRO stages of arXiv 1910.02054, section 5. FSDP2 keeps sharded parameters in both stages.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import has_own_memory
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanSupport, Stage, Technique
from perfkit.techniques.base.tensor_parallel import get_split_bytes, get_split_shape
from perfkit.techniques.parallel.fsdp import wrap_blocks
from perfkit.techniques.parallel.mixed_precision import (
    ParamDtype,
    ReduceDtype,
    check_parameters,
    count_item_bytes,
    make_parity,
    make_policies,
)
from perfkit.techniques.parallel.zero1 import SLACK, ZERO

_NO_HOST = "offload=cpu needs a device with its own memory; a CPU's parameters are in host memory already"
_FP32_BYTES = 4
# Of bytes that are known exactly; half of it separates fp32 from 16 bits. Others may use the same collectives.
_OTHER_MESSAGES = 1.1
_GATHERS = "c10d::_allgather_base_,c10d::allgather_*"


class FullyShard(Technique):
    """FSDP2 (`fully_shard`) of every block and of the rest: ranks hold slices of all training state.

    `zero2` gathers parameters once per step and keeps them from forward to backward; `zero3` frees them after a block's
    forward and gathers them again. Between steps both hold slices. With `offload=cpu` slices are in pinned host memory
    (`CPUOffloadPolicy`), on GPUs only.

    `engine=deepspeed` is DeepSpeed's stages 2 and 3, which gather and free by their own limits; each rank also keeps a
    copy of its slice of the parameters. `docs/distributed.md` says what DeepSpeed needs.

    `engine=fsdp1` is `FullyShardedDataParallel`, which torch deprecates: the parameters of a block are one flat tensor,
    and gradients are scattered from another. Those outside of blocks stay whole from forward to backward. On GPUs it
    is untested.

    **Mixed precision.** `param_dtype=bf16` gathers parameters in bf16 and computes in it (`MixedPrecisionPolicy`).
    Shards, gradients and optimizer state stay fp32, and the model's outputs are fp32 again. Gathers take half the
    bytes, and bf16 weights are freed with their block; with `amp`, autocast keeps a bf16 copy of every weight on every
    rank until the forward pass ends. `reduce_dtype=bf16` reduces gradients in bf16; default: the dtype of the shards.
    """

    stage: ClassVar[Stage] = Stage.SHARD
    paper: ClassVar[str] = ZERO
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    min_world_size: ClassVar[int] = 2
    refusals: ClassVar[Mapping[str, str]] = {
        "arguments from the 'Sparse": "FSDP2 takes no sparse gradients; build the embedding with sparse=False",
        "are out of bounds for storage of size 0": (
            "the step needs second derivatives, and FSDP2 has already freed the parameters"
        ),
    }
    _reshard: ClassVar[bool]  # the difference between both
    _along: ClassVar[str] = "dp"  # the dimension of ranks that share parameters

    offload: Literal["none", "cpu"] = "none"
    param_dtype: (
        Annotated[ParamDtype, msgspec.Meta(description="dtype of gathered parameters and of matmuls; default fp32")]
        | None
    ) = None
    reduce_dtype: (
        Annotated[ReduceDtype, msgspec.Meta(description="dtype of reduced gradients; default that of the shards")]
        | None
    ) = None

    @property
    def _offloads(self) -> bool:
        return self.offload != "none"

    def updates_on_host(self) -> bool:
        return self._offloads

    def unavailable(self, device: torch.device) -> str | None:
        return _NO_HOST if self._offloads and not has_own_memory(device) else None

    def plannable(self) -> PlanSupport:
        if not self._offloads:
            return PlanSupport()
        return PlanSupport(reason="time planned without the update, which runs on the host's CPU")

    def computes_in(self, dtype: str) -> str:
        return self.param_dtype or dtype

    def parity(self) -> ParityRule:
        return make_parity(self.param_dtype, self.reduce_dtype)

    def apply(self, state: TrainState) -> TrainState:
        check_parameters(self.name, self.param_dtype, state)
        # A plan's tensors cannot be pinned; `perfkit.plan.rehearsal.offloaded_shards` keeps account of them.
        pinned = state.planned_for is None
        policy = CPUOffloadPolicy(pin_memory=pinned) if self._offloads else OffloadPolicy()
        precision = make_policies(self.param_dtype, self.reduce_dtype)
        state.facts["unsharded_parameter_bytes"] = float(sum(map(get_split_bytes, state.model.parameters())))
        one = partial(
            fully_shard,
            mesh=self._make_mesh(state),
            reshard_after_forward=self._reshard,
            offload_policy=policy,
            ignored_params=set(state.dealt_parameters),
        )
        wrap_blocks(state, partial(one, mp_policy=precision.block), partial(one, mp_policy=precision.model))
        state.compute_dtype = self.computes_in(state.compute_dtype)
        return state

    def _make_mesh(self, state: TrainState) -> DeviceMesh:
        """The ranks that share parameters along its last dimension."""
        return state.mesh.get_submesh("dp")

    def _count_slices(self, state: TrainState) -> int:
        """Count the ranks that share parameters."""
        return state.mesh.size("dp")

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        ranks = self._count_slices(state)
        share = compute_largest_slice(state.model, ranks, state.dealt_parameters) + SLACK
        claims = list(
            self._make_traffic_claims(state, ranks) if state.mesh.size("tp") > 1 else self._make_call_claims(state)
        )
        but = " except its experts" if state.dealt else ""
        if self.offload == "none":  # offloaded shards are in CPU memory, and the facts are of the training device
            of_states = share * state.parameter_share
            claims += [
                self._make_shard_claim(
                    f"parameters{but}", "parameter_bytes", share, "unsharded_parameter_bytes", ranks
                ),
                self._make_shard_claim(f"gradients{but}", "gradient_bytes", share, "unsharded_parameter_bytes", ranks),
                self._make_shard_claim(f"optimizer state{but}", "optimizer_state_bytes", of_states, "baseline", ranks),
            ]
        else:
            statement = "parameter shards are in CPU memory"
            claims.append(self._make_claim(statement, "parameter_bytes", Relation.AT_MOST, 0.0))
        return (*claims, *self._make_precision_claims(state))

    def _make_precision_claims(self, state: TrainState) -> Iterator[Claim]:
        """Make claims on dtypes; those on bytes that are sent are upper bounds, as others are lower bounds."""
        most = partial(self._make_claim, relation=Relation.AT_MOST)
        by_call = state.workload.step is None and state.mesh.size("tp") == 1
        if self.param_dtype is not None:
            share = f"matmul_flops_share:{self.param_dtype}"
            if "fp8" not in state.applied:
                yield self._make_claim(f"matmuls have {self.param_dtype} operands", share, Relation.AT_LEAST, 0.9)
            if by_call:
                gathered = _OTHER_MESSAGES * self._count_gathered_bytes(state)
                yield most(
                    f"parameters are gathered in {self.param_dtype}", "collective_bytes:all-gather", value=gathered
                )
            if not self._offloads:
                sliced = [each for each in state.model.parameters() if each not in state.dealt_parameters]
                fp32 = float(sum(_FP32_BYTES * get_local_part(each).numel() for each in sliced))
                yield self._make_claim("parameter shards are fp32", "parameter_bytes", Relation.AT_LEAST, fp32)
        if self.reduce_dtype == "bf16" and by_call:
            reduced = _OTHER_MESSAGES * self._count_reduced_bytes(state)
            yield most("gradients are reduced in bf16", "collective_bytes:reduce-scatter", value=reduced)

    def _make_call_claims(self, state: TrainState) -> Iterator[Claim]:
        """Make claims on calls, block by block."""
        units = float(len(state.block_names) or len(state.models))
        least, gathers = partial(self._make_claim, relation=Relation.AT_LEAST), f"backward_op_calls:{_GATHERS}"
        if state.workload.step is None:  # an own step runs as many passes as it likes
            nearly_all, size = partial(least, whole=True), self._count_reduced_bytes(state)
            fact, counted = "collective_bytes:reduce-scatter", "gradients"
            yield nearly_all("all gradients are reduced into shards", fact, value=size, counted=counted)
            statement = (
                "parameters are freed and gathered for each pass" if self._reshard else "parameters are gathered"
            )
            fact, counted = "collective_bytes:all-gather", "parameters"
            yield nearly_all(statement, fact, value=self._count_gathered_bytes(state), counted=counted)
        else:
            yield least("gradients are reduced into shards", "op_calls:c10d::*reduce_scatter*", value=1.0)
        yield least("parameters are gathered for every block", f"op_calls:{_GATHERS}", value=units)
        if self._reshard:
            yield least("parameters are gathered again in backward", gathers, value=units)
        else:
            yield self._make_claim("parameters are kept from forward to backward", gathers, Relation.EQUAL, 0.0)

    def _count_reduced_bytes(self, state: TrainState) -> float:
        """Count the bytes of gradients reduced into shards once in a step, whatever the number of microbatches."""
        ranks = self._count_slices(state)
        elsewhere = {*state.dealt_parameters, *state.unreached_parameters}
        trained = [p for p in state.model.parameters() if p.requires_grad and p not in elsewhere]
        return float(ranks * sum(self._count_reduced_slice_bytes(parameter, ranks) for parameter in trained))

    def _count_gathered_bytes(self, state: TrainState) -> float:
        """Count the bytes gathered in a step: all for forward, and where blocks free them, again for backward those
        that gradients flow through.

        The rest outside of the blocks counts as one block.
        """
        ranks, inside = self._count_slices(state), [[*block.parameters()] for block in state.blocks]
        of_blocks = {parameter for block in inside for parameter in block}
        groups = [*inside, [parameter for parameter in state.model.parameters() if parameter not in of_blocks]]
        total = 0
        for group in groups:
            passes = 2 if self._reshard and any(parameter.requires_grad for parameter in group) else 1
            sliced = [parameter for parameter in group if parameter not in state.dealt_parameters]
            total += passes * ranks * sum(self._count_gathered_slice_bytes(parameter, ranks) for parameter in sliced)
        return float(state.accumulation * state.microbatches * total)

    def _count_gathered_slice_bytes(self, parameter: torch.Tensor, ranks: int) -> int:
        return count_slice_bytes(parameter, ranks, count_item_bytes(self.param_dtype))

    def _count_reduced_slice_bytes(self, parameter: torch.Tensor, ranks: int) -> int:
        return count_slice_bytes(parameter, ranks, count_item_bytes(self.reduce_dtype))

    def _make_traffic_claims(self, state: TrainState, ranks: int) -> Iterator[Claim]:
        """Make claims on the bytes sent per microbatch; split layers call the same ops over other ranks."""
        parameters = list(state.model.parameters())
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        times = state.accumulation * state.microbatches * (2 if self._reshard else 1)
        reduced = float(ranks * sum(self._count_reduced_slice_bytes(each, ranks) for each in trained))
        gathered = float(ranks * sum(self._count_gathered_slice_bytes(each, ranks) for each in parameters))
        twice = "for forward and again for backward" if self._reshard else "once for forward and backward"
        fact = f"collective_bytes:{{}}:{self._along}"
        yield self._make_claim(
            "gradients are reduced into shards once", fact.format("reduce-scatter"), Relation.EQUAL, reduced
        )
        yield self._make_claim(
            f"parameters are gathered {twice}", fact.format("all-gather"), Relation.EQUAL, times * gathered
        )

    def _make_shard_claim(self, what: str, fact: str, share: float, relative_to: str, ranks: int) -> Claim:
        statement = f"a rank holds 1/{ranks} of the {what}"
        return self._make_claim(statement, fact, Relation.AT_MOST, share, relative_to)


def compute_largest_slice(model: nn.Module, ranks: int, whole: frozenset[nn.Parameter] = frozenset()) -> float:
    """The largest rank's share when every parameter is sliced along its first dimension, as FSDP2 does.

    It is 1/ranks where the first dimensions divide by the number of ranks. Of parameters that are split over ranks, a
    rank's part is sliced; those that are `whole` are not.
    """
    sliced = [parameter for parameter in model.parameters() if parameter not in whole]
    kept = sum(parameter.nbytes for parameter in whole)
    return (kept + sum(count_slice_bytes(each, ranks) for each in sliced)) / (kept + sum(map(get_split_bytes, sliced)))


def count_slice_bytes(parameter: torch.Tensor, ranks: int, item_bytes: int | None = None) -> int:
    """The bytes of the largest slice of a parameter, with `item_bytes` for each number in place of its own."""
    rows = next(iter(get_split_shape(parameter)), 1)
    size = get_split_bytes(parameter) // rows
    if item_bytes is not None:
        size = size // parameter.itemsize * item_bytes
    return math.ceil(rows / ranks) * size
