"""A stand-in for torch's `context_parallel`, which has attention in a ring on GPUs only.

It sends keys, values and their gradients by the collectives that torch's takes (`_context_parallel/_attention.py`).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F  # noqa: N812
from torch.distributed.tensor.experimental._attention import set_rotate_method

attention = sys.modules[set_rotate_method.__module__]  # which imports it from elsewhere since torch 2.10


class Gathered(torch.autograd.Function):
    """Parts of all ranks along the sequence; each part's gradient is the sum of what all ranks have of it."""

    @staticmethod
    def forward(_ctx, part):
        return torch.cat(_sent_around(part.contiguous()), dim=2)

    @staticmethod
    def backward(_ctx, gradient):
        parts = torch.stack(gradient.chunk(dist.get_world_size(), dim=2))
        return collectives.all_to_all_single(parts, None, None, dist.group.WORLD).sum(0)


def _sent_around(part: torch.Tensor) -> list[torch.Tensor]:
    """The parts of all ranks in their order: from neighbour to neighbour, or all at once."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    if attention._cp_options.rotate_method == attention._RotateMethod.ALL_GATHER:
        return list(collectives.all_gather_tensor(part, 0, dist.group.WORLD).chunk(ranks))
    after = [(each + 1) % ranks for each in range(ranks)]
    parts = {rank: part}
    for step in range(1, ranks):
        part = collectives.permute_tensor(part.flatten(), after, dist.group.WORLD).view(part.shape)
        parts[(rank - step) % ranks] = part
    return [parts[each] for each in range(ranks)]


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
