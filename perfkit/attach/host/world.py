"""Finds this process's rank, and shares decisions between ranks, without a collective of the program."""

import os
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from perfkit.attach.host.launcher_env import read_local_rank
from perfkit.core.errors import PerfkitError
from perfkit.techniques.base.state import World

_PATIENCE = timedelta(seconds=60)


def get_world() -> World:
    """The rank by the process group; a process without one is alone."""
    if not (dist.is_available() and dist.is_initialized()):
        return World()
    return World(rank=dist.get_rank(), size=dist.get_world_size(), local_rank=read_local_rank())


def share_decision(world: World, name: str, decide: Callable[[], str]) -> str:
    """Share rank 0's decision with every rank.

    It goes through the store that the process group was made with: no collective, which would stand in the way of the
    program's own. Ranks that wait for a rank 0 that failed raise a `PerfkitError`.
    """
    if world.size == 1:
        return decide()
    store = dist.distributed_c10d._get_default_store()
    key = f"perfkit/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{name}"
    if world.rank == 0:
        try:
            decided = decide()
        except Exception:
            store.set(key, "")
            raise
        store.set(key, decided)
        return decided
    store.wait([key], _PATIENCE)
    decided = store.get(key).decode()
    if not decided:
        raise PerfkitError("rank 0 could not start recording; see its message")
    return decided
