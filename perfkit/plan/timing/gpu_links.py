"""Models the links between cataloged GPUs, as NCCL and RCCL use them.

Latencies and protocol efficiencies are from NCCL's own tuning model (src/graph/tuning.cc of
v2.20: `baseLat`, `hwLat`).
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from perfkit.devices.catalog.capability import Capability, get_capability
from perfkit.devices.catalog.catalog import CatalogEntry, Sourced, load_catalog
from perfkit.plan.timing.collectives import CollectiveProtocol, GroupLinks, Interconnect, SwitchReduction


def _make_protocols(hops: Iterable[tuple[float, float]]) -> tuple[CollectiveProtocol, ...]:
    """Protocols with `hops`, microseconds per hop within a node, for rings and trees."""
    starts = (6.6e-6, 14e-6, 8.4e-6, 6.8e-6)
    shares = (1 / 4, 0.92, 1.0, 0.92 / 3.8)
    return tuple(
        CollectiveProtocol(start, within * 1e-6, across * 1e-6, share, tree)
        for start, (within, across), share, tree in zip(starts, hops, shares, (False, False, False, True), strict=True)
    )


# Ring with LL, LL128 and Simple, tree with LL.
_OVER_NVLINK = _make_protocols(((0.6, 2.7), (1.9, 4.0), (3.4, 14.0), (0.6, 5.0)))
_OVER_PCIE = _make_protocols(((1.0, 2.7), (2.5, 4.0), (5.7, 14.0), (1.0, 5.0)))

# What NCCL counts on of a link's nominal rate (src/graph/topo.h): 20 of NVLink's 25 GB/s, 12 of 15.75 of PCI Express
# 3.0, 12 of 12.5 of a network at 100 Gbit/s. A link that is used in full is as much faster.
_OF_NVLINK, OF_PCIE, _OF_NETWORK = 0.8, 12 / 15.754, 12 / 12.5

# GPUs whose driver offers no P2P between cards (cudaDeviceCanAccessPeer): GeForce and Titan since Turing, and the
# laptops' (nccl-tests#117 for the 2080 Ti and the 4090, open-gpu-kernel-modules#29 of tinygrad for the 5090). There
# NCCL sends through the host's memory (its transport SHM), so that each byte crosses PCI Express twice.
_WITHOUT_P2P = re.compile(r"rtx-[2345]0[5-9]0(-.+)?|titan-rtx")
# 35 GB/s with 4 and 28 with 8 RTX 5090 of 63 (nccl#1639) are 0.56 and 0.44 of the link. At the least NCCL counts on 10
# GB/s between sockets, where a card has 31.5 (its log in nccl-tests#307). P2P would leave at most three quarters.
_OF_PCIE_BY_HOST, _BY_HOST_SPREAD = 0.5, 0.5 * 31.508 / 10
NO_P2P = (
    "the driver offers no P2P between GeForce cards (nccl-tests#117): traffic via host memory at half the link's rate; "
    "4 and 8 RTX 5090 reached 0.56 and 0.44 (nccl#1639)"
)

# Cards whose NVLink is a bridge, and between how many: larger groups go over PCI Express (nccl-tests#178: A100 PCIe
# reach 208 GB/s in a pair, 20 among three; NVIDIA's datasheet of the H200 NVL). So few are taken to be on one bridge.
_BRIDGES: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"(a100|a800|h100|h800)-pcie.*|h100-nvl|a30|a40|rtx-(3090|a[56]000)"), 2),
    (re.compile(r"h200-nvl"), 4),
)


class LinkMesh(NamedTuple):
    """Fully connected GPUs with one link per pair, at a rate in GB/s, of which RCCL assumes `counted`."""

    links: int
    counted: float
    spread: float


# Links of Infinity Fabric (xGMI). What RCCL counts on (`ncclTopoXGMISpeed`, src/graph/topo.h) is 48 GB/s of a link of
# gfx94x and gfx95x: of 64 what is left by error correction and protocol (rccl#1210; "Understanding RCCL Bandwidth and
# xGMI Performance on AMD Instinct MI300X", rocm.blogs.amd.com: all seven reach 310 to 330 of 336 GB/s). It is 24 of
# gfx908. Of the others the nominal rate is the best case. A group of n GPUs has n - 1 of a GPU's links between them.
_MESHES: tuple[tuple[re.Pattern[str], LinkMesh], ...] = (
    (re.compile(r"mi3(00|25)x"), LinkMesh(7, 48.0, 336 / 310)),
    (re.compile(r"mi35[05]x"), LinkMesh(7, 48.0, 537.5 / 7 / 48)),
    (re.compile(r"mi100"), LinkMesh(3, 24.0, 46 / 24)),
)
# MI200's dies are linked unevenly: RCCL counts on 36 of 50 GB/s of each link (the same source).
_OF_XGMI = 36 / 50

# Boards with NVSwitch and NVLink SHARP: those of HGX and NVL72, no cards and no bridges.
_IN_SWITCH = re.compile(r"(h100|h800|h200)-sxm|h20(-3e)?|g?b[23]00")
# All-reduces that NVSwitch sums: bytes of the message a second over the nominal rate of NVLink, by ranks, measured on
# eight H100 (nccl#1455: 258 to 273 GB/s of 450 with 5 to 8; eight H800 0.61 in nccl#1374). With fewer a ring is as
# fast (the same), and with two there is none (`ncclNvlsInit`, src/transport/nvls.cc). On Blackwell they were not
# measured; NCCL counts on 0.74 in place of Hopper's 0.85 (`nvlsEfficiency`).
_SUMMED = {5: 258 / 450, 6: 265 / 450, 7: 270 / 450, 8: 273 / 450}
_SUM_STARTS_S = 25e-6  # `hwLat` of NVLS
_OF_HOPPER = 0.74 / 0.85
_BLACKWELL: Capability = (10, 0)


def make_nccl_links(entry: CatalogEntry, ranks_per_node: int, network: float | None) -> Interconnect | None:
    """NCCL's or RCCL's collectives among devices of a kind; None if the catalog has no link between them.

    `network` is the network bandwidth of one device in bytes per second, in one direction.
    """
    across = None if network is None else network * _OF_NETWORK
    over_pcie = _make_pcie_links(entry, across, ranks_per_node)
    if entry.interconnect_gb_s is None:
        return over_pcie
    if entry.vendor == "AMD":
        return _make_xgmi_links(entry, across, ranks_per_node, over_pcie)
    rate, source = _resolve_figure(entry.interconnect_gb_s)
    within, spread = rate * 1e9 * _OF_NVLINK, 1 / _OF_NVLINK
    bridged = next((ranks for pattern, ranks in _BRIDGES if pattern.fullmatch(entry.id)), None)
    if bridged is not None and over_pcie is not None:
        near = GroupLinks(bridged, within, _OVER_NVLINK, spread)
        return over_pcie._replace(fewer=(near,), source=f"{source}; groups above {bridged}: {over_pcie.source}")
    return Interconnect(
        within, across, ranks_per_node, _OVER_NVLINK, spread, source, in_switch=_make_switch_reduction(entry)
    )


def _resolve_figure(figure: Sourced) -> tuple[float, str]:
    """A figure of the catalog with its source."""
    rate, source = figure
    return rate, load_catalog().sources[source]


def has_switch(entry: CatalogEntry) -> bool:
    """True if GPUs of this kind have switches that reduce (NVLink SHARP, `NVLS`)."""
    return _IN_SWITCH.fullmatch(entry.id) is not None


def _make_pcie_links(entry: CatalogEntry, across: float | None, ranks_per_node: int) -> Interconnect | None:
    if entry.host_link_gb_s is None:
        return None
    rate, source = _resolve_figure(entry.host_link_gb_s)
    if _WITHOUT_P2P.fullmatch(entry.id):
        within = rate * 1e9 * _OF_PCIE_BY_HOST
        return Interconnect(within, across, ranks_per_node, _OVER_PCIE, _BY_HOST_SPREAD, f"{source}; {NO_P2P}")
    return Interconnect(rate * 1e9 * OF_PCIE, across, ranks_per_node, _OVER_PCIE, 1 / OF_PCIE, source)


def _make_xgmi_links(
    entry: CatalogEntry, across: float | None, ranks_per_node: int, over_pcie: Interconnect | None
) -> Interconnect | None:
    """Links of fully connected groups; larger groups use the remaining interconnect."""
    assert entry.interconnect_gb_s is not None
    rate, source = _resolve_figure(entry.interconnect_gb_s)
    mesh = next((mesh for pattern, mesh in _MESHES if pattern.fullmatch(entry.id)), None)
    if mesh is None:
        spread = 1 / _OF_XGMI
        return Interconnect(rate * 1e9 * _OF_XGMI, across, ranks_per_node, _OVER_NVLINK, spread, source)
    link = mesh.counted * 1e9
    linked = min(mesh.links + 1, max(2, ranks_per_node))
    groups = range(2, linked + 1)
    fewer = tuple(GroupLinks(ranks, link * (ranks - 1), _OVER_NVLINK, mesh.spread) for ranks in groups)
    if linked < ranks_per_node and over_pcie is not None:
        return over_pcie._replace(fewer=fewer, source=f"{source}; groups above {linked}: {over_pcie.source}")
    whole = link * (linked - 1)
    return Interconnect(whole, across, ranks_per_node, _OVER_NVLINK, mesh.spread, source, fewer=fewer, one_to_one=link)


def _make_switch_reduction(entry: CatalogEntry) -> SwitchReduction | None:
    if not has_switch(entry):
        return None
    assert entry.interconnect_gb_s is not None
    newer = _OF_HOPPER if get_capability(entry) >= _BLACKWELL else 1.0
    rate = entry.interconnect_gb_s[0] * 1e9 * newer
    return SwitchReduction(_SUM_STARTS_S, {ranks: share * rate for ranks, share in _SUMMED.items()})
