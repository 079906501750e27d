"""How fast ranks on this machine's CPU exchange messages: gloo's all-reduce, timed between two of them.

`python -m perfkit.plan.gloo STORE RANK` is one of the two. What they took is kept beside the measured ceilings.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import msgspec
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from perfkit.cost.collective import Kind
from perfkit.devices.cache import folder
from perfkit.devices.fingerprint import file_stem, fingerprint
from perfkit.devices.peak import CPU
from perfkit.files import read_json, write_json
from perfkit.plan import alpha_beta
from perfkit.plan.collectives import Interconnect, Protocol
from perfkit.spec import Struct

_SIZES = tuple(4**power for power in range(5, 13))  # 1 KiB to 16 MiB
_REPEATS = 9
_TIMEOUT_S = 120


class Exchanged(Struct):
    """An all-reduce of so many bytes between two ranks took so long."""

    bytes: int
    seconds: float


class Measured(Struct):
    """All of them, of one machine."""

    schema_version: int = 1
    exchanged: tuple[Exchanged, ...]


def gloo() -> Interconnect | None:
    """The links between ranks on this machine; None where they were not measured."""
    file = _file()
    return fitted(read_json(file, Measured).exchanged) if file.exists() else None


def measure_gloo() -> Interconnect | None:
    """Time them now, and keep what they took; None where two ranks could not be started."""
    measured = _measured()
    if measured is None:
        return None
    write_json(_file(), measured)
    return fitted(measured.exchanged)


def _file() -> Path:
    return folder() / "gloo" / f"{file_stem(fingerprint(CPU, ''))}.json"


def fitted(exchanged: Sequence[Exchanged]) -> Interconnect:
    """The links of ranks whose all-reduces took so long between two of them.

    Such a one has two hops, and a rank's links carry the message once.
    """
    known = alpha_beta.fitted((each.bytes, each.seconds) for each in exchanged)
    hop_s = known.start_s / 2
    return Interconnect(
        within=known.bytes_per_s,
        across=None,
        ranks_per_node=sys.maxsize,
        protocols=(Protocol(start_s=0.0, hop_s=hop_s, across_hop_s=hop_s, share=1.0),),
        spread=known.spread,
        source="gloo between two ranks on this machine",
        by_others={Kind.REDUCE_SCATTER: Kind.ALL_REDUCE},  # whole, then sliced: torch's ProcessGroupGloo
    )


def _measured() -> Measured | None:
    with tempfile.TemporaryDirectory(prefix="perfkit-") as store:
        command = [sys.executable, "-P", "-m", "perfkit.plan.gloo", str(Path(store) / "store")]
        ranks = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE) for rank in (0, 1)]
        try:
            told = [rank.communicate(timeout=_TIMEOUT_S)[0] for rank in ranks]
        except subprocess.TimeoutExpired:
            return None
        finally:
            for rank in ranks:
                rank.kill()
    return None if any(rank.returncode for rank in ranks) else msgspec.json.decode(told[0], type=Measured)


def _rank(store: str, rank: int) -> Measured:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=FileStore(store, 2), rank=rank, world_size=2)
    measured = Measured(exchanged=tuple(Exchanged(bytes=size, seconds=_all_reduce_s(size)) for size in _SIZES))
    dist.destroy_process_group()
    return measured


def _all_reduce_s(size: int) -> float:
    message = torch.zeros(size // 4)
    took = []
    for _ in range(_REPEATS):
        dist.barrier()
        start = perf_counter()
        dist.all_reduce(message)
        took.append(perf_counter() - start)
    return min(took)  # others only add to it


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_rank(sys.argv[1], int(sys.argv[2]))))
