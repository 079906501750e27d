"""Communication hooks of DistributedDataParallel: the data that they send instead of gradients, and its size."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.distributed import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}

# The first two steps average whole gradients: DDP rebuilds its buckets after the first.
POWERSGD_STARTS = 2
_LEAST_COMPRESSION = 2  # torch's default: a matrix whose factors have more than half of its size is sent unchanged
_EPSILON = 1e-8  # torch's advice where a column of factors may be all zeros

# As torch declares a hook; the second argument must have this name.
Hook = Callable[[Any, GradBucket], torch.futures.Future[torch.Tensor]]


def send_in_16_bits(model: DistributedDataParallel, dtype: str) -> None:
    """Cast gradients while they are averaged."""
    model.register_comm_hook(None, {"fp16": fp16_compress_hook, "bf16": _run_bf16_hook}[dtype])


def _run_bf16_hook(group: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """torch's own hook under another name: by its own DDP refuses it without NCCL, and gloo reduces bf16 too."""
    return bf16_compress_hook(group, bucket)


def send_low_rank(model: DistributedDataParallel, rank: int, sent: Callable[[int], None]) -> None:
    """Send PowerSGD's factors of gradients; `sent` receives the bytes of all buckets at each exchange."""
    state = PowerSGDState(
        process_group=None,
        matrix_approximation_rank=rank,
        start_powerSGD_iter=POWERSGD_STARTS,
        min_compression_rate=_LEAST_COMPRESSION,
        orthogonalization_epsilon=_EPSILON,
    )

    buckets: list[int] = []

    def low_rank(power: PowerSGDState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        before = power.total_numel_after_compression
        buffer = bucket.buffer()
        future = powerSGD_hook(power, bucket)
        # By torch's own account, which has nothing of whole gradients.
        buckets.append((power.total_numel_after_compression - before or buffer.numel()) * buffer.element_size())
        if bucket.is_last():
            sent(sum(buckets))
            buckets.clear()
        return future

    model.register_comm_hook(state, low_rank)


def count_low_rank_bytes(gradients: Iterable[torch.Tensor], rank: int) -> int:
    """Bytes of what PowerSGD sends of each (Vogels et al. 2019, algorithm 1): rank (n + m) for n x m numbers."""
    return sum(_count_low_rank_numbers(gradient, rank) * gradient.element_size() for gradient in gradients)


def _count_low_rank_numbers(gradient: torch.Tensor, rank: int) -> int:
    """PowerSGD takes a gradient of more dimensions for a matrix of as many rows as its first one has."""
    numel = gradient.numel()
    n = gradient.shape[0] if gradient.dim() else 1
    m = numel // n
    factors = (n + m) * min(n, m, rank)
    return factors if factors * _LEAST_COMPRESSION < numel else numel
