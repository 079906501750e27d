"""How long a collective takes: alpha-beta over the links between ranks.

A ring of n ranks takes n - 1 hops to gather or to reduce-scatter a message and 2 (n - 1) to reduce it to all, and each
rank's links carry (n - 1) / n of the message as often (Thakur, Rabenseifner and Gropp, Optimization of Collective
Communication Operations in MPICH, IJHPCA 2005, sections 4.1 to 4.5; nccl-tests, doc/PERFORMANCE.md, calls the share the
factor of the bus bandwidth). A broadcast and a reduction to one rank are pipelined along the ring; a tree takes
2 log2 n hops.

A backend chooses the fastest of its protocols by the same arithmetic. NCCL's are those of its own tuning model
(src/graph/tuning.cc of v2.20: `baseLat`, `hwLat`, and what each protocol leaves of the bandwidth).
"""

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from perfkit.analysis.model.plan import Interval
from perfkit.cost.collective import Kind, Message, message_of_size
from perfkit.devices.catalogue import Entry


class Protocol(NamedTuple):
    """A way to send a message: what it takes to start, seconds a hop within and across nodes, and the share of the
    links' bandwidth that it leaves; of a tree, only for an all-reduce."""

    start_s: float
    hop_s: float
    across_hop_s: float
    share: float
    tree: bool = False


class Interconnect(NamedTuple):
    """The links of one rank, bytes a second in one direction: to ranks of its node, and to others.

    `across` is None where it is not known. `spread` is the factor by which the bandwidth may be off, to either side.
    `by_others` are collectives that the backend makes of another.
    """

    within: float
    across: float | None
    ranks_per_node: int
    protocols: tuple[Protocol, ...]
    spread: float
    source: str
    by_others: Mapping[Kind, Kind] = MappingProxyType({})

    def seconds(self, message: Message, ranks: int) -> Interval | None:
        """The time of a collective of so many ranks; None where it reaches beyond a node and that link is not known."""
        message = message_of_size(self.by_others.get(message.kind, message.kind), message.bytes, ranks)
        if ranks == 1:
            return Interval(value=0.0, low=0.0, high=0.0)
        bandwidth = self._bandwidth(message.kind, ranks)
        if bandwidth is None:
            return None
        nodes = math.ceil(ranks / self.ranks_per_node)

        def fastest(bandwidth: float) -> float:
            return min(
                protocol.start_s
                + _hop_s(message.kind, protocol, ranks, nodes)
                + message.bus_factor * message.bytes / (bandwidth * protocol.share)
                for protocol in self.protocols
                if message.kind is Kind.ALL_REDUCE or not protocol.tree
            )

        low, high = fastest(bandwidth * self.spread), fastest(bandwidth / self.spread)
        return Interval(value=fastest(bandwidth), low=low, high=high)

    def _bandwidth(self, kind: Kind, ranks: int) -> float | None:
        """What the links of each rank carry of its share of the message.

        Rings enter and leave a node once over the links of all its ranks together; an all-to-all sends what is for
        other nodes over each rank's own.
        """
        if ranks <= self.ranks_per_node:
            return self.within
        if self.across is None:
            return None
        if kind is not Kind.ALL_TO_ALL:
            # A node that is not full has fewer links, and every ring goes through it.
            in_last = ranks - (math.ceil(ranks / self.ranks_per_node) - 1) * self.ranks_per_node
            return min(self.within, self.across * in_last)
        outside = (ranks - self.ranks_per_node) / (ranks - 1)
        return min(self.within / (1 - outside), self.across / outside) if outside < 1 else self.across


_ONCE = (Kind.BROADCAST, Kind.REDUCE, Kind.SEND, Kind.RECEIVE)


def _hop_s(kind: Kind, protocol: Protocol, ranks: int, nodes: int) -> float:
    """Seconds of all hops one after the other, of which those across nodes are slower."""
    if protocol.tree:
        return 2 * ((math.ceil(ranks / nodes) - 1) * protocol.hop_s + math.log2(nodes) * protocol.across_hop_s)
    if kind in _ONCE:
        return protocol.hop_s if nodes == 1 else protocol.across_hop_s
    rounds = 2 if kind is Kind.ALL_REDUCE else 1
    return rounds * ((ranks - nodes) * protocol.hop_s + (nodes - 1) * protocol.across_hop_s)


def _nccl(hops: Iterable[tuple[float, float]]) -> tuple[Protocol, ...]:
    """`hops`: microseconds of a hop within a node, of each protocol of a ring and of a tree."""
    starts = (6.6e-6, 14e-6, 8.4e-6, 6.8e-6)
    shares = (1 / 4, 0.92, 1.0, 0.92 / 3.8)
    return tuple(
        Protocol(start, within * 1e-6, across * 1e-6, share, tree)
        for start, (within, across), share, tree in zip(starts, hops, shares, (False, False, False, True), strict=True)
    )


# Ring with LL, LL128 and Simple, tree with LL.
NCCL_OVER_NVLINK = _nccl(((0.6, 2.7), (1.9, 4.0), (3.4, 14.0), (0.6, 5.0)))
NCCL_OVER_PCIE = _nccl(((1.0, 2.7), (2.5, 4.0), (5.7, 14.0), (1.0, 5.0)))

# What NCCL counts on of a link's nominal rate (src/graph/topo.h): 20 of NVLink's 25 GB/s, 12 of 15.75 of PCI Express
# 3.0, 12 of 12.5 of a network at 100 Gbit/s. A link that is used in full is as much faster.
_OF_NVLINK, OF_PCIE, _OF_NETWORK = 0.8, 12 / 15.754, 12 / 12.5


def nccl(entry: Entry, ranks_per_node: int, network: float | None) -> Interconnect | None:
    """NCCL's or RCCL's collectives among devices of a kind; None where no link between them is in the catalogue.

    `network` are the bytes a second, in one direction, of the network's links of one device.
    """
    across = None if network is None else network * _OF_NETWORK
    if entry.interconnect_gb_s is not None:
        rate, source, share, protocols = *entry.interconnect_gb_s, _OF_NVLINK, NCCL_OVER_NVLINK
    elif entry.host_link_gb_s is not None:
        rate, source, share, protocols = *entry.host_link_gb_s, OF_PCIE, NCCL_OVER_PCIE
    else:
        return None
    return Interconnect(rate * 1e9 * share, across, ranks_per_node, protocols, 1 / share, source)
