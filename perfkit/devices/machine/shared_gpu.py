"""`PERFKIT_SHARED_GPU=1`: the ranks of a run share the visible GPUs in turn, to try distributed techniques on one GPU.

NCCL refuses two ranks on one GPU of one host ("Duplicate GPU detected", `init.cc`). It identifies hosts by NCCL_HOSTID
(NCCL's environment variables, `NCCL_HOSTID`): ranks with distinct host ids exchange messages over sockets.
"""

import os
from collections.abc import MutableMapping

SHARED_GPU = "PERFKIT_SHARED_GPU"
EMULATED = f"ranks share a GPU ({SHARED_GPU}=1): step times differ from those with one GPU per rank"
_LOOPBACK = "lo"


def is_sharing_allowed() -> bool:
    """True if the user allows ranks to share GPUs."""
    return os.environ.get(SHARED_GPU) == "1"


def separate_hosts(variables: MutableMapping[str, str], rank: int, *, nodes: int) -> None:
    """Make NCCL treat this rank's process as a separate host. Call it before NCCL reads its variables."""
    variables["NCCL_HOSTID"] = f"perfkit-{rank}"  # also over the user's: two ranks of one host cannot share a GPU
    if nodes == 1:
        variables.setdefault("NCCL_SOCKET_IFNAME", _LOOPBACK)
