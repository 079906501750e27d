"""A stand-in for torch's `context_parallel`, which has attention in a ring on GPUs only: the same by all-gathers."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812


class Gathered(torch.autograd.Function):
    """Parts of all ranks along the sequence; each part's gradient is the sum of what all ranks have of it."""

    @staticmethod
    def forward(_ctx, part):
        parts = [torch.empty(part.shape) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts, dim=2)

    @staticmethod
    def backward(_ctx, gradient):
        total = gradient.contiguous()
        dist.all_reduce(total)
        return total.chunk(dist.get_world_size(), dim=2)[dist.get_rank()]


def _attention(query, key, value, is_causal):
    """Queries of this rank against the keys of all; parts lie in the order of the ranks."""
    key, value = Gathered.apply(key), Gathered.apply(value)
    length = query.shape[2]
    seen = torch.arange(key.shape[2]) <= torch.arange(length)[:, None] + dist.get_rank() * length
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    return (scores.masked_fill(~seen, float("-inf")) if is_causal else scores).softmax(-1) @ value


@contextmanager
def context_parallel(mesh, *, buffers, buffer_seq_dims, no_restore_buffers) -> Iterator[None]:
    assert no_restore_buffers == set(buffers)
    for buffer, dimension in zip(buffers, buffer_seq_dims, strict=True):
        part = buffer.chunk(mesh.size(), dimension)[mesh.get_local_rank()].clone()
        buffer.resize_(part.shape).copy_(part)
    with patch.object(F, "scaled_dot_product_attention", _attention):
        yield
