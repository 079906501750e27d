"""Where a rank works: its device, which it makes the current one, and the process group it joins then."""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from perfkit.devices.visible import lacking
from perfkit.errors import UnavailableError
from perfkit.measure.meeting import meet
from perfkit.spec import LaunchSpec
from perfkit.techniques.state import World


def take_device(launch: LaunchSpec, world: World) -> torch.device:
    """The rank's device, on a GPU the current one from now on.

    Raises:
        UnavailableError: there are fewer GPUs than ranks. Every rank raises it, so that none waits for another.
    """
    if launch.device != "cuda":
        return torch.device(launch.device)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world.size))  # torchrun may have others on other machines
    reason = lacking(here, torch.cuda.device_count())
    if reason:
        raise UnavailableError(reason)
    torch.cuda.set_device(world.local_rank)
    return torch.device("cuda", world.local_rank)


def join_group(device: torch.device, folder: Path, world: World, nodes: int = 1) -> None:
    """Join the group of all ranks, after `take_device`: NCCL works on the current device where it is told no other, so
    that a rank that has chosen none would leave a context on the first GPU (pytorch#135279, pytorch#159262).

    `device_id` is not given: with it NCCL connects at once, and its buffers would be in what is read as the memory of
    the context alone (`perfkit.instruments.process_memory`), before the first collective is made for them.
    """
    place: dict[str, Any]
    if nodes == 1:  # a file as the meeting point: no port to find, none to race for
        place = {"init_method": f"file://{folder / 'rendezvous'}"}
    elif "MASTER_PORT" in os.environ:  # the launcher has one, such as torchrun's store
        place = {"init_method": "env://"}
    else:
        place = {"store": meet(folder, world)}
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, **place, rank=world.rank, world_size=world.size)
