"""Keeps FSDP2's offloaded shards in the host's memory, though a plan's tensors are all on a CPU.

With `CPUOffloadPolicy` shards, their gradients and the optimizer's state are on the host. A gather first copies shards
to the device; a reduced gradient is copied to pinned memory (`FSDPParam.all_gather_inputs`, `foreach_reduce`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam, ShardedState

from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.target.fake_host import FakeHost


@contextmanager
def offload_shards(memory: FakeMemory, host: FakeHost) -> Iterator[None]:
    """Move the shards that FSDP2 offloads inside this context, and record what it copies."""
    make_shard, make_dtensor = FSDPParam._init_sharded_param, FSDPParam.to_sharded_dtensor
    get_inputs: Any = FSDPParam.all_gather_inputs.fget  # type: ignore[attr-defined]

    def make_offloaded_shard(self: Any, *args: Any, **options: Any) -> None:
        make_shard(self, *args, **options)
        if self.offload_to_cpu:
            _pin(self._sharded_param_data)

    def copy_inputs(self: Any) -> list[torch.Tensor]:
        if not self.offload_to_cpu or self.sharded_state != ShardedState.SHARDED:
            inputs: list[torch.Tensor] = get_inputs(self)
            return inputs
        shard = self._sharded_param_data
        with memory.host.copy_to_device():
            copied = shard.clone()
        host.record_copy(shard.nbytes, out=False)
        return [copied if self.param_dtype in (None, copied.dtype) else copied.to(self.param_dtype)]

    def make_offloaded_gradient(self: Any, tensor: torch.Tensor) -> Any:
        if self.offload_to_cpu and hasattr(self, "sharded_param"):  # a reduced gradient, not the shard itself
            host.record_copy(tensor.nbytes, out=True)
            tensor = tensor.clone()
            _pin(tensor)
        return make_dtensor(self, tensor)

    def _pin(tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        memory.move_to_host(storage)
        host.pin(storage)

    with patch.multiple(
        FSDPParam,
        _init_sharded_param=make_offloaded_shard,
        all_gather_inputs=property(copy_inputs),
        to_sharded_dtensor=make_offloaded_gradient,
    ):
        yield
