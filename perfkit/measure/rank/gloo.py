"""Gloo with one worker thread a group, for layers split as DTensors: torch's two can end the process with a signal.

Both write the name of the collective that they have ended into one string of the group, without a lock
(`ProcessGroupGloo::runLoop`, torch 2.13). A name of more than 15 characters is on the heap, such as
ALLGATHER_COALESCED of every all-gather of a DTensor: two that end at once free it twice, and malloc faults somewhere
later. `python -m benchmarks.gloo_workers` shows it within seconds.

Not for all ranks: what waits for a collective on a worker, as PowerSGD's hook does in a callback, needs a second one.
"""

import os
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import torch.distributed.distributed_c10d as c10d
from torch._C._distributed_c10d import Store
from torch.distributed import ProcessGroupGloo

from perfkit.measure.launch.network import GLOO_INTERFACES


class _SingleWorkerGloo(ProcessGroupGloo):
    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        gloo: Any = ProcessGroupGloo  # whose stub has other names
        options = gloo._Options()
        interfaces = [name for name in os.environ.get(GLOO_INTERFACES, "").split(",") if name]
        devices = [gloo.create_device(interface=name) for name in interfaces]
        options._devices = devices or [gloo.create_default_device()]
        options._timeout = timeout
        options._threads = 1
        super().__init__(store, rank, size, options)


def limit_gloo_workers() -> None:
    """From now on all Gloo groups of this process have one worker. torch takes options for every backend but this."""
    create = c10d._new_process_group_helper

    def with_one_worker(*args: Any, **options: Any) -> Any:
        # Only while entered: later torch checks groups against this class, and they would lose a subclass.
        with patch.object(c10d, "ProcessGroupGloo", _SingleWorkerGloo):
            return create(*args, **options)

    c10d._new_process_group_helper = with_one_worker
