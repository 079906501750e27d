"""FSDP2's mixed precision: parameters are cast as they are gathered, gradients as they are reduced."""

from typing import Literal, NamedTuple

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import ParityRule
from perfkit.techniques.base.conflict import NO_FP32_PRODUCTS, Conflict
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS

ParamDtype = Literal["bf16"]
ReduceDtype = Literal["fp32", "bf16"]

_ROUNDINGS = 8  # as `amp`, which rounds the same operands
_16_BITS = ("bf16", "fp16")
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def make_precision_conflicts() -> tuple[Conflict, ...]:
    """Make the conflicts of `param_dtype=bf16`."""
    when = "param_dtype=bf16"
    return (
        Conflict(
            "amp",
            "both choose the dtype of matmuls, and autocast would keep copies of weights; omit amp",
            when,
        ),
        Conflict("bf16", "with bf16 parameters, FSDP2 has nothing to cast; omit param_dtype", when),
        Conflict("tf32", NO_FP32_PRODUCTS, when),
    )


class Policies(NamedTuple):
    """The policy of blocks, and that of a whole model, whose outputs are fp32 again for the loss, as with autocast."""

    block: MixedPrecisionPolicy
    model: MixedPrecisionPolicy


def make_policies(param_dtype: ParamDtype | None, reduce_dtype: ReduceDtype | None) -> Policies:
    """Make the policies of fp32 shards; None leaves a dtype as it is.

    Without `reduce_dtype` gradients are reduced in fp32; torch would reduce them in `param_dtype`.
    """
    computed = None if param_dtype is None else _DTYPES[param_dtype]
    reduced = torch.float32 if computed is not None else None
    if reduce_dtype is not None:
        reduced = _DTYPES[reduce_dtype]
    outputs = None if computed is None else torch.float32
    return Policies(MixedPrecisionPolicy(computed, reduced), MixedPrecisionPolicy(computed, reduced, outputs))


def check_parameters(technique: str, param_dtype: ParamDtype | None, state: TrainState) -> None:
    """Raise `UnavailableError` if the parameters have 16 bits already, or torch has no such step."""
    if param_dtype is not None and state.compute_dtype in _16_BITS:
        raise UnavailableError(
            f"{technique}:param_dtype={param_dtype} casts fp32 parameters, but they are {state.compute_dtype} "
            "already; omit param_dtype, or use --dtype fp32",
            id="skip.dtype",
        )
    modules = (module for model in state.models.values() for module in model.modules())
    if param_dtype is not None and any(map(_has_running_statistics, modules)):
        raise UnavailableError(
            f"{technique}:param_dtype={param_dtype} casts the weights of batch normalization, whose running statistics "
            "stay fp32, and torch takes no mixture; use amp"
        )


def _has_running_statistics(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._BatchNorm) and module.affine and module.running_mean is not None


def make_parity(param_dtype: ParamDtype | None, reduce_dtype: ReduceDtype | None) -> ParityRule:
    """Make the rule on losses: `amp`'s where anything is rounded to bf16."""
    if "bf16" not in (param_dtype, reduce_dtype):
        return LOSSLESS
    return ParityRule(relative=_ROUNDINGS * torch.finfo(torch.bfloat16).eps, basis=f"{_ROUNDINGS} roundings of bf16")


def count_item_bytes(dtype: str | None) -> int | None:
    """The bytes of a number in a dtype; None without one."""
    return None if dtype is None else _DTYPES[dtype].itemsize
