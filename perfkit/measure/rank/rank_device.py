"""The device of a rank, which becomes the current one, and its process group."""

import os
from collections import defaultdict
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store
from torch.distributed.distributed_c10d import default_pg_timeout
from torch.distributed.rendezvous import rendezvous

from perfkit.core.errors import UnavailableError
from perfkit.core.spec import LaunchSpec
from perfkit.devices.accelerator import CPU, Accelerator, get_accelerator
from perfkit.devices.machine.nvml import MIG
from perfkit.devices.machine.shared_gpu import is_sharing_allowed, separate_hosts
from perfkit.devices.machine.visible_gpus import explain_missing_gpus
from perfkit.measure.rank.rendezvous import open_network_store
from perfkit.techniques.base.state import World

_KEY = "perfkit/gpu"


def choose_gpu_index(local_rank: int, local_ranks: int, visible: int, *, shared: bool = False) -> int | None:
    """CUDA's number of the GPU that a rank takes; None where it sees none."""
    if not visible:
        return None
    if visible >= local_ranks:
        return local_rank
    return local_rank % visible if shared else 0


def read_gpu_identity(accelerator: Accelerator, index: int | None) -> str:
    """The UUID of a visible GPU or MIG instance; empty for none."""
    if index is None:
        return ""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
    if named.startswith(MIG):  # older drivers give all instances the UUID of the GPU around them
        return named
    return str(accelerator.runtime.get_device_properties(index).uuid)


def exchange_identities(store: Store, world: World, identity: str) -> list[str]:
    """The identities of all ranks' GPUs, by rank. Every rank has to call this."""
    store.set(f"{_KEY}/{world.rank}", identity)
    return [store.get(f"{_KEY}/{rank}").decode() for rank in range(world.size)]


def find_gpu_conflict(identities: Sequence[str], local_ranks: int, visible: int, *, shared: bool = False) -> str:
    """Explain why ranks with these GPUs cannot run, the same on every rank; empty if each has its own GPU.

    `visible` is how many GPUs this rank sees, of a machine with `local_ranks` ranks.
    """
    ranks: dict[str, list[int]] = defaultdict(list)
    for rank, identity in enumerate(identities):
        ranks[identity].append(rank)
    if without := ranks.pop("", []):
        return f"{_format_ranks(without)} of {len(identities)} {'see' if len(without) > 1 else 'sees'} no GPU"
    for identity, same in ranks.items():
        if len(same) > 1 and not shared:
            few = explain_missing_gpus(local_ranks, visible)
            return f"{few}{': ' if few else ''}{_format_ranks(same)} would share the GPU {identity}"
    return ""


def _format_ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


_LOCAL_RANK = "LOCAL_RANK"


def open_store(folder: Path, world: World, nodes: int = 1) -> Store:
    """The store in which the ranks of a run exchange keys before they have a process group."""
    store: Store
    if nodes == 1:  # a file as the meeting point: no port to find, none to race for
        store, _, _ = next(rendezvous(f"file://{folder / 'rendezvous'}", world.rank, world.size))
    elif "MASTER_PORT" in os.environ:  # the launcher has one, such as torchrun's store
        store, _, _ = next(rendezvous("env://", world.rank, world.size))
    else:
        return open_network_store(folder, world)
    store.set_timeout(default_pg_timeout)  # as torch has it where it opens the store itself
    return store


class RankDevice(NamedTuple):
    """A rank's device; `shared` where ranks of the run have the same GPU, which the user has to allow."""

    device: torch.device
    shared: bool = False


def take_device(launch: LaunchSpec, world: World, store: Store | None = None) -> RankDevice:
    """Take the rank's device, a GPU as the current one from now on. `store` is that of several ranks.

    Raises:
        UnavailableError: a rank sees no GPU, or two would have the same one. Every rank raises it, so that none waits
            for another.
    """
    accelerator = get_accelerator(launch.device)
    if not accelerator.has_own_memory:
        return RankDevice(torch.device(launch.device))
    visible, here = accelerator.runtime.device_count(), _count_local_ranks(world)
    may_share, shared = is_sharing_allowed(), False
    index = choose_gpu_index(world.local_rank, here, visible, shared=may_share)
    if store is None:
        reason = explain_missing_gpus(here, visible)
    else:
        identities = exchange_identities(store, world, read_gpu_identity(accelerator, index))
        reason = find_gpu_conflict(identities, here, visible, shared=may_share)
        shared = len(set(identities)) < len(identities)
    if reason or index is None:
        raise UnavailableError(reason, id="skip.gpu")
    if shared:
        separate_hosts(os.environ, world.rank, nodes=launch.nodes)
    _set_local_rank(os.environ, index, world)
    accelerator.runtime.set_device(index)
    return RankDevice(torch.device(accelerator.type, index), shared)


def join_group(device: torch.device, store: Store, world: World) -> None:
    """Join the group of all ranks, after `take_device`: NCCL works on the current device by default, so that a rank
    that has chosen none would leave a context on the first GPU (pytorch#135279, pytorch#159262).

    `device_id` is not given: with it NCCL connects at once, and its buffers would count as memory of the context alone
    (`perfkit.instruments.sensors.process_memory`), before the first collective is made for them.
    """
    accelerator, backend = get_accelerator(device), CPU.backend
    if accelerator.has_own_memory:
        backend = f"{CPU.type}:{CPU.backend},{accelerator.type}:{accelerator.backend}"
    # With a prefix, as torch has it where it opens the store itself: other keys are in there, too.
    of_group = PrefixStore("default_pg", store)
    dist.init_process_group(backend, store=of_group, rank=world.rank, world_size=world.size)


def _count_local_ranks(world: World) -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", world.size))  # torchrun may have other ranks on other machines


def _set_local_rank(variables: MutableMapping[str, str], index: int, world: World) -> None:
    """Set LOCAL_RANK, which DeepSpeed and others take for the number of the rank's GPU."""
    if variables.get(_LOCAL_RANK, str(world.local_rank)) != str(index):
        variables[_LOCAL_RANK] = str(index)
