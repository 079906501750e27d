"""FSDP1 (`FullyShardedDataParallel`) as the engine of ZeRO: the parameters of a block are one flat tensor in slices.

Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, VLDB 2023,
https://arxiv.org/abs/2304.11277. torch deprecates it for FSDP2.
"""

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp._traversal_utils import _get_fsdp_handles
from torch.distributed.fsdp.wrap import CustomPolicy
from torch.distributed.utils import _apply_to_tensors

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, Relation
from perfkit.techniques.base.conflict import RELAXED, SHARDED, Conflict
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import PlanSupport
from perfkit.techniques.parallel.mixed_precision import Policies

FSDP1 = "fsdp1"
PLANNED = PlanSupport(
    reason="FSDP1's own code; on a GPU its streams may hold two more blocks' parameters after they are freed"
)
# Batches and how they are taken, kernels of attention, precision, recomputation, and updates by element.
_TRIED = ("batch", "accum", "seq", "flash", "fused_ce", "tf32", "amp", "bf16", "ckpt", "inplace", "optim")
_EXCLUDED = ("ddp", *SHARDED, *RELAXED, "engine")  # whatever the engine
_PADDING = 0.01  # flat tensors are padded until they divide, and every parameter has its count of updates


def make_fsdp1_conflicts() -> tuple[Conflict, ...]:
    """Make the conflicts of `engine=fsdp1`: with every technique that it has not been tried with."""
    return tuple(
        Conflict(name, f"FSDP1 has not been tried with {name}; use engine=torch", when=f"engine={FSDP1}")
        for name in TECHNIQUES.list_names()
        if name not in (*_TRIED, *_EXCLUDED)
    )


def shard_with_fsdp1(state: TrainState, policies: Policies, *, reshard: bool) -> TrainState:
    """Wrap every block and the rest of the model; `reshard`: parameters are freed after a block's forward.

    The parameters stay those of the modules (`use_orig_params`), each the part of it that lies in this rank's slice.
    Raises `UnavailableError` for a step of several models or of the workload's own.
    """
    if state.workload.step is not None or len(state.models) > 1:
        raise UnavailableError(
            f"the workload {state.workload.name} defines its own step or several models, with which FSDP1 has not been "
            "tried; use engine=torch",
            id="skip.own_step",
        )
    cast = policies.block
    precision = MixedPrecision(param_dtype=cast.param_dtype, reduce_dtype=cast.reduce_dtype)
    blocks = frozenset(state.blocks)
    warnings.filterwarnings("ignore", message=".*FullyShardedDataParallel.*", category=FutureWarning)
    wrapped = FullyShardedDataParallel(
        state.model,
        process_group=state.mesh.group("dp"),
        sharding_strategy=ShardingStrategy.FULL_SHARD if reshard else ShardingStrategy.SHARD_GRAD_OP,
        auto_wrap_policy=CustomPolicy(lambda module: module in blocks),
        mixed_precision=precision if cast.param_dtype or cast.reduce_dtype else None,
        device_id=state.device,
        use_orig_params=True,
    )
    wrapped.register_forward_pre_hook(_forget_unfinished_pass)
    if policies.model.output_dtype is not None:
        wrapped.register_forward_hook(partial(_cast_outputs, policies.model.output_dtype))
    state.wrapped[""] = wrapped
    state.no_sync = wrapped.no_sync
    state.gradients_reduced = True
    state.slices = state.mesh.size("dp")
    return state


def _forget_unfinished_pass(wrapped: nn.Module, _given: Any) -> None:
    """Remove the hooks of a forward pass without backward, such as one that is measured.

    FSDP1 registers none while there are old ones; with mixed precision these are of other tensors, and it would reduce
    no gradients.
    """
    handles: list[Any] = _get_fsdp_handles(wrapped)
    for handle in handles:
        if handle._needs_pre_backward_unshard and hasattr(handle.flat_param, "_post_backward_hook_state"):
            handle.flat_param._post_backward_hook_state[-1].remove()
            del handle.flat_param._post_backward_hook_state


def _cast_outputs(dtype: torch.dtype, _module: nn.Module, _given: Any, outputs: Any) -> Any:
    """Cast a model's outputs for its loss, as FSDP2's policy does."""
    return _apply_to_tensors(lambda each: each.to(dtype) if each.is_floating_point() else each, outputs)


def make_flat_claims(technique: str, state: TrainState, *, reshard: bool) -> Iterator[Claim]:
    """Make claims on a rank's share of what FSDP1 shards, and on what ranks exchange of it in a step."""
    ranks = state.mesh.size("dp")
    for what, fact, reference in (
        ("parameters", "parameter_bytes", "reference_parameter_bytes"),
        ("gradients", "gradient_bytes", "reference_parameter_bytes"),
        ("optimizer state", "optimizer_state_bytes", "baseline"),
    ):
        yield Claim(
            technique=technique,
            statement=f"a rank holds 1/{ranks} of the {what}",
            fact=fact,
            relation=Relation.AT_MOST,
            value=1 / ranks + _PADDING,
            relative_to=reference,
        )
    trained, gathered = _count_exchanged_bytes(state, reshard=reshard)
    for statement, kind, value in (
        ("all gradients are reduced into shards", "reduce-scatter", trained),
        ("parameters are gathered for each pass" if reshard else "parameters are gathered", "all-gather", gathered),
    ):
        yield Claim(
            technique=technique,
            statement=statement,
            fact=f"collective_bytes:{kind}",
            relation=Relation.AT_LEAST,
            value=value,
        )


def _count_exchanged_bytes(state: TrainState, *, reshard: bool) -> tuple[float, float]:
    """Bytes that a step at least reduces, and gathers: a block's flat tensor once more for backward where it is freed.

    FSDP1 keeps the parameters outside of the blocks from forward to backward.
    """
    reduced = gathered = 0.0
    root: Any = state.wrapped[""]
    for handle in _get_fsdp_handles(root):
        flat: Any = handle.flat_param
        numbers = flat._unpadded_unsharded_size.numel()
        param_dtype, reduce_dtype = handle._fwd_bwd_param_dtype, handle._reduce_dtype
        passes = 2 if reshard and handle is not root._handle else 1
        gathered += passes * numbers * param_dtype.itemsize
        reduced += numbers * reduce_dtype.itemsize * flat.requires_grad
    return reduced, gathered * state.accumulation * state.microbatches
