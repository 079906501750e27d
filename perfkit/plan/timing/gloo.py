"""Models gloo between ranks on this machine's CPU: a line fitted to measured all-reduces.

`perfkit calibrate` measures the time of each collective at each size.
"""

import sys
from collections.abc import Sequence

from perfkit.core.errors import NewerFormatError
from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.devices.accelerator import CPU
from perfkit.devices.ceilings.ceiling import LinkRate
from perfkit.devices.links.link_calibration import load_link_rates
from perfkit.plan.target import alpha_beta
from perfkit.plan.timing.collectives import CollectiveProtocol, Interconnect


def load_gloo_links() -> Interconnect | None:
    """The links between ranks on this machine; None where they were not measured, or a newer perfkit keeps them, which
    the notes of the ceilings tell."""
    try:
        return fit_gloo_links(load_link_rates(CPU.type, ""))
    except NewerFormatError:
        return None


def fit_gloo_links(rates: Sequence[LinkRate]) -> Interconnect | None:
    """The links of ranks whose all-reduces took so long, among as few as were measured; None without any.

    One among n ranks has 2 (n - 1) hops, and a rank's links carry the message 2 (n - 1) / n times.
    """
    reduced = [rate for rate in rates if rate.collective == CollectiveType.ALL_REDUCE]
    if not reduced:
        return None
    ranks = min(rate.ranks for rate in reduced)
    of_these = [rate for rate in reduced if rate.ranks == ranks]
    line = alpha_beta.fit_transfers(
        (make_message_of_size(CollectiveType.ALL_REDUCE, rate.bytes, ranks).bus_factor * rate.bytes, rate.seconds)
        for rate in of_these
    )
    hop_s = line.start_s / (2 * (ranks - 1))
    return Interconnect(
        within=line.bytes_per_s,
        across=None,
        ranks_per_node=sys.maxsize,
        protocols=(CollectiveProtocol(start_s=0.0, hop_s=hop_s, across_hop_s=hop_s, share=1.0),),
        spread=line.spread,
        source=f"gloo between {ranks} ranks on this machine",
        by_others={
            CollectiveType.REDUCE_SCATTER: CollectiveType.ALL_REDUCE
        },  # whole, then sliced: torch's ProcessGroupGloo
    )
