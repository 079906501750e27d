"""By which kind of link the GPUs of a machine reach each other, as `nvidia-smi topo -m` names it.

`NV4`: four NVLinks, directly or through switches; `PIX`, `PXB`: one or several PCI Express switches; `PHB`: a host
bridge; `NODE`: several in a NUMA node; `SYS`: between NUMA nodes. Read against NVML's documentation (topology, NvLink,
P2P status) and not yet tried on hardware.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pynvml

from perfkit.devices.machine import nvml

Kinds = Mapping[tuple[int, int], str]

_NVLINK = "NV"
# nvmlGpuTopologyLevel_t, the nearest first.
_ANCESTORS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",  # two GPUs on one board are behind its switch
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
_SLOWEST_LAST = tuple(dict.fromkeys(_ANCESTORS.values()))
_MOST_GROUPS = 20_000  # 8 of 16 GPUs are 12,870


class GpuGroup(NamedTuple):
    """GPUs that exchange messages, by their numbers, and the slowest kind of link among them; "" where not known."""

    gpus: tuple[int, ...]
    link: str


def read_kinds(numbers: Sequence[int]) -> dict[tuple[int, int], str]:
    """The kind of link of each pair of GPUs, by NVML's numbers, the smaller first; empty where NVML cannot say."""
    try:
        with nvml.open_nvml():
            handles = {number: pynvml.nvmlDeviceGetHandleByIndex(number) for number in sorted(numbers)}
            pairs = itertools.combinations(handles, 2)
            return {(one, other): _read_kind(handles[one], handles[other]) for one, other in pairs}
    except pynvml.NVMLError:
        return {}


def find_slowest_link(gpus: Sequence[int], kinds: Kinds) -> str:
    """Find the slowest kind of link among these GPUs, which bounds their collectives; "" if a pair is unknown."""
    pairs = [kinds.get((min(pair), max(pair)), "") for pair in itertools.combinations(gpus, 2)]
    return "" if "" in pairs else max(pairs, key=_get_slowness, default="")


def choose_groups(order: Sequence[int], ranks: int, kinds: Kinds) -> tuple[GpuGroup, ...]:
    """The first GPUs in CUDA's `order`, which ranks take, and one more group for each other kind of link."""
    groups: dict[str, GpuGroup] = {}
    for gpus in itertools.islice(itertools.combinations(order, ranks), _MOST_GROUPS):
        link = find_slowest_link(gpus, kinds)
        groups.setdefault(link, GpuGroup(gpus, link))
    return tuple(groups.values())


def _get_slowness(kind: str) -> tuple[int, int]:
    if kind.startswith(_NVLINK):
        return 0, -int(kind.removeprefix(_NVLINK))
    return 1, _SLOWEST_LAST.index(kind)


def _read_kind(one: Any, other: Any) -> str:
    links = _count_nvlinks(one, other)
    return f"{_NVLINK}{links}" if links else _ANCESTORS[pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other)]


def _count_nvlinks(one: Any, other: Any) -> int:
    """Count the NVLinks from one GPU to another; all of them if connected by a switch."""
    if pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK) != pynvml.NVML_P2P_STATUS_OK:
        return 0
    bus = nvml.decode_text(pynvml.nvmlDeviceGetPciInfo(other).busId).lower()
    return sum(_is_link_to(one, link, bus) for link in range(pynvml.NVML_NVLINK_MAX_LINKS))


def _is_link_to(gpu: Any, link: int, bus: str) -> bool:
    try:
        if pynvml.nvmlDeviceGetNvLinkState(gpu, link) != pynvml.NVML_FEATURE_ENABLED:
            return False
        if pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return True
        return nvml.decode_text(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link).busId).lower() == bus
    except pynvml.NVMLError:  # a GPU has fewer links than NVML counts at most
        return False
