"""Whether the ranks of a process group share a host, by the number of devices that a trace lists."""

from collections.abc import Sequence

from perfkit.analysis.model.trace import ONE_HOST, SEVERAL_HOSTS
from perfkit.trace.model import Trace


def locate_group(ranks: Sequence[int], size: int | None, trace: Trace) -> str:
    """`ONE_HOST`, `SEVERAL_HOSTS`, or empty where the trace does not tell.

    Launchers number the ranks host by host, a rank per device. A process that sees one device only may be one of
    several on its host.
    """
    devices = len(trace.devices)
    if devices < 2 or size is None:
        return ""
    if (trace.world_size or size) <= devices:
        return ONE_HOST
    if len(ranks) != size:
        return ""
    return ONE_HOST if len({rank // devices for rank in ranks}) == 1 else SEVERAL_HOSTS
