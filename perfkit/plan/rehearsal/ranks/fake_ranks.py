"""Simulates a process group: this process is one rank, collectives return at once, and groups in use are recorded."""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import ceil
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _DEFAULT_FIRST_BUCKET_BYTES, _compute_bucket_assignment_by_size
from torch.distributed import GradBucket, device_mesh
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from perfkit.cost.live_collectives import describe_exchange
from perfkit.cost.torch_dispatch import DispatchKey, disable_modes, tree_leaves
from perfkit.instruments.training.tensors import get_address
from perfkit.techniques.base.state import World

# The argument that gloo copies as a whole while a collective runs: what is gathered, and what is reduced for all ranks.
COPIED_BY_GLOO = {"c10d::_allgather_base_": 0, "c10d::allgather_": 0, "c10d::_reduce_scatter_base_": 1}


@contextmanager
def simulate_ranks(size: int) -> Iterator[World]:
    """Make this process the first of `size` ranks inside this context, without a process group for one rank."""
    world = World(rank=0, size=size)
    if size == 1:
        yield world
        return
    # Distributed tensors take a third of a second to import, and plans of one rank do not need them.
    from torch.distributed.fsdp import _flat_param
    from torch.distributed.fsdp._fully_shard import _fsdp_init, _fsdp_param
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    from perfkit.plan.rehearsal.ranks.sharded_updates import update_shards

    if not torch.ops.c10d.allreduce_.default.has_kernel_for_dispatch_key(DispatchKey.Meta):
        # Before torch 2.10 collectives have no fake kernels until this is imported.
        importlib.import_module("torch.distributed._tools.fake_collectives")
    dist.init_process_group("fake", rank=world.rank, world_size=size, store=FakeStore())
    with ExitStack() as stack:
        stack.callback(dist.destroy_process_group)
        for module in (device_mesh, _fsdp_init):
            stack.enter_context(patch.object(module, "init_device_mesh", _wrap_outside_modes(init_device_mesh)))
        for method in ("__init__", "_unflatten"):
            if not hasattr(DeviceMesh, method):  # the second, before torch 2.10
                continue
            wrapped_method = _wrap_outside_modes(getattr(DeviceMesh, method))
            stack.enter_context(patch.object(DeviceMesh, method, wrapped_method))
        stack.enter_context(patch.object(_fsdp_param, "_chunk_with_empty", _make_first_chunk))
        # FSDP1 asks for addresses, and a fake tensor's is 0.
        stack.enter_context(patch.object(_flat_param, "_data_ptr_allocated", _is_allocated))
        stack.enter_context(patch.object(_flat_param, "_same_storage", _have_same_storage))
        # What an op makes of the whole tensors of all ranks is asked of fake tensors once: they are nobody's memory.
        shapes = _wrap_outside_modes(ShardingPropagator._propagate_tensor_meta_non_cached)
        stack.enter_context(patch.object(ShardingPropagator, "_propagate_tensor_meta_non_cached", shapes))
        stack.enter_context(update_shards())
        wrapping = _patch_ddp_init(DistributedDataParallel.__init__)
        stack.enter_context(patch.object(DistributedDataParallel, "__init__", wrapping))
        yield world


def _wrap_outside_modes(function: Any) -> Any:
    """Run functions outside fake mode, such as a mesh's constructor, which reads its values."""

    def outside(*args: Any, **kwargs: Any) -> Any:
        with disable_modes():
            return function(*args, **kwargs)

    return outside


def _make_first_chunk(tensor: torch.Tensor, num_chunks: int, dim: int) -> list[torch.Tensor]:
    """Make only this rank's shard, the first: FSDP2 makes all ranks' shards, which is slow for thousands."""
    return [tensor.narrow(dim, 0, ceil(tensor.size(dim) / num_chunks))]


def _is_allocated(tensor: torch.Tensor) -> bool:
    return tensor.untyped_storage().nbytes() > 0


def _have_same_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    return get_address(one.untyped_storage()) == get_address(other.untyped_storage())


def _patch_ddp_init(init: Any) -> Any:
    """Patch DDP's value-based and C++ parts: comparing the ranks' models, and waiting for averages."""

    def wrapping(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        with patch.object(dist, "_compute_bucket_assignment_by_size", partial(_assign_buckets, self)):
            init(self, *args, init_sync=False, **kwargs)
        self.register_comm_hook(self.process_group, _reduce_bucket)
        self.reducer = _FixedReducer(self.reducer)  # type: ignore[assignment]

    return wrapping


def _assign_buckets(
    ddp: DistributedDataParallel, parameters: list[torch.Tensor], _limits: list[int], sparse: list[bool]
) -> tuple[list[list[int]], list[int]]:
    """The buckets of every step after the first, in backward order, the first one smaller.

    In reverse, since DDP reverses them. The first step has one bucket for all.
    """
    first = _DEFAULT_FIRST_BUCKET_BYTES if ddp.bucket_bytes_cap_default else ddp.bucket_bytes_cap
    limits = [first, ddp.bucket_bytes_cap]
    buckets, sizes = _compute_bucket_assignment_by_size(parameters[::-1], limits, sparse[::-1])
    last = len(parameters) - 1
    return [[last - index for index in bucket] for bucket in buckets[::-1]], sizes[::-1]


class _FixedReducer:
    """DDP's reducer that keeps its first buckets: rebuilding compares gradient orders between ranks."""

    def __init__(self, reducer: Any) -> None:
        self._reducer = reducer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reducer, name)

    def _rebuild_buckets(self) -> bool:
        return False


def _reduce_bucket(group: dist.ProcessGroup, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    buffer = bucket.buffer()
    dist.all_reduce(buffer, group=group)
    reduced: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    reduced.set_result(buffer)
    return reduced


def count_gloo_copy_bytes(op: str, args: Sequence[Any]) -> int:
    """Temporary bytes of a gloo collective."""
    return sum(tensor.nbytes for tensor in tree_leaves(args[COPIED_BY_GLOO[op]]) if isinstance(tensor, torch.Tensor))


class UsedGroups:
    """The number of ranks of each group in use (`ranks`), by name: each has a communicator with permanent buffers."""

    def __init__(self) -> None:
        self.ranks: dict[str, int] = {}

    def record_call(self, func: Any, args: Sequence[Any], result: Any) -> None:
        """Record the group of a call of an op, if it is a collective."""
        exchange = describe_exchange(func, args, result)
        if exchange is not None:
            self.ranks[exchange.group] = exchange.ranks
