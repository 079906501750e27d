"""Bytes of optimizer state per parameter, from the optimizer's paper: the claims of `optim`.

Each takes the parameter and the parameter group that it is in. A moment has the parameter's dtype.
"""

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from perfkit.techniques.activations.paged_optimizer import get_local_optimizer
from perfkit.techniques.activations.paged_tensors import get_local_part

Group = Mapping[str, Any]

_FP32 = 4
_STEP = 4  # torch counts the updates of each parameter in a separate tensor


def compute_state_bytes(optimizers: Iterable[Optimizer], of: Callable[[Tensor, Group], float]) -> float:
    """This rank's bytes of state when optimizers keep `of` of each parameter, or of its local shard.

    Only parameters that have been updated have state: a frozen one has none, nor has one without a gradient (an unused
    head). Before the first update all that can have a gradient are counted.
    """
    total = 0.0
    for optimizer in map(get_local_optimizer, optimizers):
        trained = [(p, group) for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        updated = [(p, group) for p, group in trained if optimizer.state.get(p)]
        total += sum(of(get_local_part(p), group) for p, group in updated or trained)
    return total


def count_no_bytes(_parameter: Tensor, _group: Group) -> float:
    """SGD keeps nothing."""
    return 0.0


def count_momentum_bytes(parameter: Tensor, _group: Group) -> float:
    """A momentum, and at most a few numbers a tensor."""
    return float(parameter.nbytes)


def count_adam_bytes(parameter: Tensor, _group: Group) -> float:
    """Adam (arXiv 1412.6980, algorithm 1): the means of the gradient and of its square."""
    return 2.0 * parameter.nbytes + _STEP


def count_adafactor_bytes(parameter: Tensor, _group: Group) -> float:
    """Adafactor without momentum (arXiv 1804.04235, section 3): a row and a column instead of a matrix."""
    return _count_factored_bytes(parameter) + _STEP


def count_came_bytes(parameter: Tensor, _group: Group) -> float:
    """CAME (arXiv 2307.02047, algorithm 2): a momentum, the factored second moment and the factored confidence."""
    confidence = _count_factored_bytes(parameter) if parameter.dim() > 1 else 0.0
    return parameter.nbytes + _count_factored_bytes(parameter) + confidence + _FP32


def count_sm3_bytes(parameter: Tensor, _group: Group) -> float:
    """SM3 (arXiv 1901.11150, section 4): one number for each slice of each dimension."""
    return float(sum(parameter.shape) or 1) * parameter.element_size()


def count_galore_bytes(parameter: Tensor, group: Group) -> float:
    """GaLore (arXiv 2403.03507, table 1): of a matrix m x n with m <= n and rank r, m r + 2 n r numbers."""
    if "rank" not in group:
        return 2.0 * parameter.nbytes
    small, large = sorted(parameter.shape)
    return float(group["rank"] * (small + 2 * large)) * parameter.element_size()


def count_soap_bytes(parameter: Tensor, group: Group) -> float:
    """SOAP (arXiv 2409.11321, section 7.2): of a matrix 2 m n + 2 m^2 + 2 n^2 numbers; larger sides are left out."""
    sides = [size for size in parameter.shape if size <= group["max_precondition_dim"]] if parameter.dim() > 1 else []
    return 2.0 * parameter.nbytes + 2.0 * sum(side * side for side in sides) * parameter.element_size()


def count_muon_bytes(parameter: Tensor, group: Group) -> float:
    """Muon keeps a momentum of the hidden matrices; AdamW updates the others."""
    return (1.0 if group["use_muon"] else 2.0) * parameter.nbytes


def count_adam_mini_bytes(parameter: Tensor, group: Group) -> float:
    """Adam-mini (arXiv 2406.16793, algorithm 1): a momentum in fp32, and one second moment a block.

    Embeddings and the output have a second moment of every weight.
    """
    moments = 2 if any(part in group["name"] for part in ("embed", "embd", "wte", "lm_head.weight")) else 1
    return float(moments * _FP32 * parameter.numel())


def count_adam8bit_bytes(parameter: Tensor, _group: Group) -> float:
    """Both moments in 8 bits (`_count_blockwise_bytes`)."""
    return 2 * _count_blockwise_bytes(parameter)


PAGED_FROM = 100_000  # numbers of a tensor whose state bitsandbytes pages


def count_paged_adam8bit_bytes(parameter: Tensor, group: Group) -> float:
    """Paged optimizers (arXiv 2305.14314, section 3): the moments of large tensors are in managed memory, which is not
    the device's; their scales stay."""
    count = parameter.numel()
    return 2.0 * _FP32 * ceil(count / 256) if count >= PAGED_FROM else count_adam8bit_bytes(parameter, group)


def count_momentum8bit_bytes(parameter: Tensor, _group: Group) -> float:
    """A momentum in 8 bits (`_count_blockwise_bytes`)."""
    return _count_blockwise_bytes(parameter)


def _count_blockwise_bytes(parameter: Tensor) -> float:
    """arXiv 2110.02861, section 2: a byte each and an fp32 scale for every 256; below 4096 elements bitsandbytes keeps
    fp32."""
    count = parameter.numel()
    return float(count + _FP32 * ceil(count / 256)) if count >= 4096 else float(_FP32 * count)


def count_torchao_8bit_bytes(parameter: Tensor, _group: Group) -> float:
    """torchao's AdamW8bit: both moments in a byte each, an fp32 scale for every 256 and a table of 256 values."""
    return 2 * _count_torchao_bytes(parameter, bits=8, block=256)


def count_torchao_4bit_bytes(parameter: Tensor, _group: Group) -> float:
    """torchao's AdamW4bit (after arXiv 2309.01507): half a byte, a scale for every 128 and a table of 16 values."""
    return 2 * _count_torchao_bytes(parameter, bits=4, block=128)


def count_torchao_fp8_bytes(parameter: Tensor, _group: Group) -> float:
    """torchao's AdamWFp8 (after arXiv 2409.12517): both moments in fp8, and an fp32 scale for every 256."""
    return 2 * _count_torchao_bytes(parameter, bits=8, block=256, table=0)


def _count_torchao_bytes(parameter: Tensor, bits: int, block: int, table: int | None = None) -> float:
    """A moment in codes, its scales, and a table of the codes' values, unless `table` has another length."""
    count = parameter.numel()
    if count < 4096 or count % block:
        return float(parameter.nbytes)
    return float(count * bits / 8 + _FP32 * (count / block + (1 << bits if table is None else table)))


def _count_factored_bytes(parameter: Tensor) -> float:
    """Means over the last dimension and over the one before it; of a vector all."""
    if parameter.dim() < 2:
        return float(parameter.nbytes)
    return parameter.nbytes / parameter.shape[-1] + parameter.nbytes / parameter.shape[-2]
