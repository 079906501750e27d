"""The GPU of a rank among those that it sees, and the proof that no two ranks have the same one.

A launcher shows a rank either all GPUs of its machine (torchrun, perfkit's own processes) or its own alone (Slurm's
`--gpus-per-task=1` and `--gpu-bind`, CUDA_VISIBLE_DEVICES for each). The variables that say which are many. So a rank
that sees fewer GPUs than its machine has ranks takes the first that it sees, and then all ranks compare UUIDs.
"""

import os
from collections import defaultdict
from collections.abc import Sequence

from torch._C._distributed_c10d import Store

from perfkit.devices.accelerator import Accelerator
from perfkit.devices.machine.nvml import MIG
from perfkit.devices.machine.visible_gpus import explain_missing_gpus
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
