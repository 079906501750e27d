"""Predicts the time of collectives: alpha-beta model over the links between ranks.

A ring of n ranks takes n - 1 hops to gather or to reduce-scatter a message and 2 (n - 1) to reduce it to all, and each
rank's links carry (n - 1) / n of the message as often (Thakur, Rabenseifner and Gropp, Optimization of Collective
Communication Operations in MPICH, IJHPCA 2005, sections 4.1 to 4.5; nccl-tests, doc/PERFORMANCE.md, calls the share the
factor of the bus bandwidth). A broadcast and a reduction to one rank are pipelined along the ring; a tree takes
2 log2 n hops.

Backends choose the fastest protocol by the same arithmetic.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from perfkit.analysis.model.plan import Interval
from perfkit.cost.calls.collective import CollectiveType, Message, make_message_of_size


class CollectiveProtocol(NamedTuple):
    """A protocol: start-up time, seconds per hop within and across nodes, and its share of the links' bandwidth.

    Trees apply only to all-reduces."""

    start_s: float
    hop_s: float
    across_hop_s: float
    share: float
    tree: bool = False


class GroupLinks(NamedTuple):
    """What as many ranks of a node at the most have between them, bytes a second in one direction, where that is not
    what all have: `spread` is the factor by which it may be off, to either side."""

    most_ranks: int
    within: float
    protocols: tuple[CollectiveProtocol, ...]
    spread: float


class SwitchReduction(NamedTuple):
    """All-reduces summed by a node's switch: start-up time, and message bytes per second by number of ranks."""

    start_s: float
    bytes_per_s: Mapping[int, float]


class Interconnect(NamedTuple):
    """The links of one rank in bytes per second and direction: within its node, and across nodes.

    `across` is None if unknown. `spread` is the uncertainty factor of the bandwidth. `by_others` are collectives that
    the backend implements with another. `fewer` are the links of smaller groups, smallest first. `one_to_one` is the
    bandwidth to a single rank, None if equal to that of all together. `in_switch` is None without a reducing switch.
    """

    within: float
    across: float | None
    ranks_per_node: int
    protocols: tuple[CollectiveProtocol, ...]
    spread: float
    source: str
    by_others: Mapping[CollectiveType, CollectiveType] = MappingProxyType({})
    fewer: tuple[GroupLinks, ...] = ()
    one_to_one: float | None = None
    in_switch: SwitchReduction | None = None

    def seconds(self, message: Message, ranks: int, *, summed: bool = False) -> Interval | None:
        """The time of a collective; None if it spans nodes and their link is unknown.

        `summed`: a switch could do it (an all-reduce by sum in a supported dtype).
        """
        message = make_message_of_size(self.by_others.get(message.kind, message.kind), message.bytes, ranks)
        if ranks == 1:
            return Interval(value=0.0, low=0.0, high=0.0)
        near = (each for each in self.fewer if ranks <= min(each.most_ranks, self.ranks_per_node))
        reach: GroupLinks | Interconnect = next(near, self)
        bandwidth = self._compute_bandwidth(message.kind, ranks, reach.within)
        if bandwidth is None:
            return None
        nodes = math.ceil(ranks / self.ranks_per_node)

        def fastest(factor: float) -> float:
            by_ranks = [
                protocol.start_s
                + _sum_hop_s(message.kind, protocol, ranks, nodes)
                + message.bus_factor * message.bytes / (factor * bandwidth * protocol.share)
                for protocol in reach.protocols
                if message.kind is CollectiveType.ALL_REDUCE or not protocol.tree
            ]
            return min(by_ranks + self._time_in_switch(message, ranks, factor) if summed else by_ranks)

        return Interval(value=fastest(1.0), low=fastest(reach.spread), high=fastest(1 / reach.spread))

    def _time_in_switch(self, message: Message, ranks: int, factor: float) -> list[float]:
        """Seconds in the switch, or nothing; the measurement is the lower bound."""
        switch = self.in_switch
        if switch is None or message.kind is not CollectiveType.ALL_REDUCE or ranks not in switch.bytes_per_s:
            return []
        return [switch.start_s + message.bytes / (switch.bytes_per_s[ranks] * min(1.0, factor))]

    def _compute_bandwidth(self, kind: CollectiveType, ranks: int, within: float) -> float | None:
        """Bandwidth of each rank's links for its share of the message.

        Rings enter and leave a node once over the links of all its ranks together; an all-to-all sends what is for
        other nodes over each rank's own.
        """
        if ranks <= self.ranks_per_node:
            return self.one_to_one if self.one_to_one is not None and kind in _PAIRS else within
        if self.across is None:
            return None
        if kind is not CollectiveType.ALL_TO_ALL:
            # A node that is not full has fewer links, and every ring goes through it.
            in_last = ranks - (math.ceil(ranks / self.ranks_per_node) - 1) * self.ranks_per_node
            return min(self.within, self.across * in_last)
        outside = (ranks - self.ranks_per_node) / (ranks - 1)
        return min(self.within / (1 - outside), self.across / outside) if outside < 1 else self.across


_PAIRS = (CollectiveType.SEND, CollectiveType.RECEIVE)
_ONCE = (CollectiveType.BROADCAST, CollectiveType.REDUCE, CollectiveType.SEND, CollectiveType.RECEIVE)


def _sum_hop_s(kind: CollectiveType, protocol: CollectiveProtocol, ranks: int, nodes: int) -> float:
    """Seconds of all hops in sequence; hops across nodes are slower."""
    if protocol.tree:
        return 2 * ((math.ceil(ranks / nodes) - 1) * protocol.hop_s + math.log2(nodes) * protocol.across_hop_s)
    if kind in _ONCE:
        return protocol.hop_s if nodes == 1 else protocol.across_hop_s
    rounds = 2 if kind is CollectiveType.ALL_REDUCE else 1
    return rounds * ((ranks - nodes) * protocol.hop_s + (nodes - 1) * protocol.across_hop_s)
