"""Rendezvous of ranks on several machines: rank 0 listens on a free port, and writes its address into the run's folder.

All machines share that folder, so that no port has to be chosen in advance. The alternative on one machine, a file that
all write to (torch's FileStore), needs locks that network file systems often lack.
"""

import os
import socket
import time
import warnings
from datetime import timedelta
from pathlib import Path

from torch.distributed import TCPStore

from perfkit.core.errors import PerfkitError
from perfkit.core.files import read_json, write_json
from perfkit.core.spec import Struct
from perfkit.measure.launch.store_server import serve_store
from perfkit.techniques.base.state import World

_FILE = "meeting.json"
_WITHIN_S = 300.0
_LOOK_S = 0.05


class _StoreAddress(Struct):
    host: str
    port: int


def open_network_store(folder: Path, world: World) -> TCPStore:
    """The store of all ranks of the run in `folder`. `MASTER_ADDR` names this machine where its own name does not.

    A `PerfkitError` where rank 0 has not said in five minutes where it is.
    """
    if world.rank == 0:
        host = os.environ.get("MASTER_ADDR") or socket.gethostname()
        store, notice = serve_store(host, 0, within_s=_WITHIN_S, world_size=world.size)
        if notice:
            warnings.warn(notice, stacklevel=2)
        write_json(folder / _FILE, _StoreAddress(host=host, port=store.port))
        return store
    limit = time.monotonic() + _WITHIN_S
    while _FILE not in os.listdir(folder):  # noqa: PTH208 - a network file system looks anew, as it does not for exists
        if time.monotonic() > limit:
            raise PerfkitError(f"rank 0 has not published its address; is {folder} the same folder on all machines?")
        time.sleep(_LOOK_S)
    where = read_json(folder / _FILE, _StoreAddress)
    return TCPStore(where.host, where.port, world.size, is_master=False, timeout=timedelta(seconds=_WITHIN_S))
