"""What a plan is made for: this machine's CPU or a GPU of the catalogue, and how much of its memory a rank may take."""

from typing import Literal, NamedTuple

import psutil

from perfkit.amounts import parse_amount
from perfkit.devices.catalogue import Entry, named
from perfkit.devices.peak import IEEE, TF32, Fp32Settings
from perfkit.errors import UsageError
from perfkit.units import nbytes


class Target(NamedTuple):
    """A device.

    Attributes:
        device: `cpu`, or the GPU's id in the catalogue.
        kind: what torch calls it; GPUs of AMD are `cuda` too.
        entry: the GPU in the catalogue, None for a CPU.
        capacity_bytes: the nominal memory of the GPU or of the machine.
        limit_bytes: what a rank may take; None on a CPU of which nothing was said.
        ranks_per_node: GPUs that are linked to each other directly.
        network_bytes_per_s: of a GPU's links to those of other nodes, in one direction; None where it is not known.
    """

    device: str = "cpu"
    kind: Literal["cpu", "cuda"] = "cpu"
    entry: Entry | None = None
    capacity_bytes: int | None = None
    limit_bytes: int | None = None
    ranks_per_node: int = 8
    network_bytes_per_s: float | None = None

    @property
    def fp32(self) -> Fp32Settings | None:
        """What products of fp32 are computed in as long as a program says nothing: cuDNN takes TF32, cuBLAS does not.

        None where that is fp32: on a CPU, and on GPUs without TF32 or of AMD, whose MIOpen knows none.
        """
        if self.entry is None or self.entry.vendor != "NVIDIA" or TF32 not in self.entry.matrix_tflops:
            return None
        return Fp32Settings(matmul=IEEE, conv=TF32, rnn=TF32, has_tf32=True)


CPU = Target()


def target_of(gpu: str | None, memory: str | None) -> Target:
    """The target that `--gpu` and `--memory` name; `memory` is a share of the device (`0.9`, `90%`) or an amount.

    Raises:
        UsageError: an unknown GPU, with those of similar names; a GPU that comes with several amounts of memory; or
            memory that is no amount or more than there is.
    """
    if gpu is None:
        capacity = int(psutil.virtual_memory().total)
        limit = None if memory is None else _limit(memory, capacity, "this machine")
        return CPU._replace(capacity_bytes=capacity, limit_bytes=limit)
    entry = named(gpu)
    if entry.memory_gb is None:
        raise UsageError(f"{entry.id} comes with several amounts of memory: write which, such as --gpu {entry.id}-16g")
    capacity = int(entry.memory_gb * 2**30)  # cards of 80 GB have 80 GiB, less what the driver keeps
    limit = capacity if memory is None else _limit(memory, capacity, entry.id)
    return Target(device=entry.id, kind="cuda", entry=entry, capacity_bytes=capacity, limit_bytes=limit)


def _limit(memory: str, capacity: int, whose: str) -> int:
    share = memory.strip().endswith("%") or memory.strip().replace(".", "", 1).isdecimal()
    try:
        limit = parse_amount(memory, "1") * capacity if share else parse_amount(memory, "bytes")
    except UsageError as error:
        raise UsageError(f"--memory: {error}, or a share of the device such as 0.9") from None
    if not 0 < limit <= capacity:
        raise UsageError(f"--memory {memory} is {nbytes(limit)}, and {whose} has {nbytes(capacity)}")
    return int(limit)
