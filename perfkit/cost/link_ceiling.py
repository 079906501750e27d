"""The measured bus bandwidth between ranks as a ceiling, by message size."""

from collections.abc import Sequence

from perfkit.core.units import format_bytes
from perfkit.cost.calls.collective import CollectiveType, Message, make_message_of_size
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingLevel, LinkRate
from perfkit.devices.ceilings.ceiling import CeilingKind as Obtained
from perfkit.devices.links.rates import interpolate_rate

# Both ends of a message between two ranks take equally long.
_MEASURED_AS = {CollectiveType.RECEIVE: CollectiveType.SEND}


def compute_bus_bandwidth(rate: LinkRate) -> float:
    """Bytes a second that the links carried for each rank, by nccl-tests' factors."""
    return make_message_of_size(CollectiveType(rate.collective), rate.bytes, rate.ranks).compute_bus_bandwidth(
        rate.seconds
    )


def find_link_ceiling(rates: Sequence[LinkRate], message: Message, ranks: int) -> Ceiling | None:
    """The bus bandwidth of collectives of this kind and size between this many ranks; None where not measured."""
    rate = interpolate_rate(rates, _MEASURED_AS.get(message.kind, message.kind), ranks, message.bytes)
    if rate is None:
        return None
    return Ceiling(
        level=CeilingLevel.INTERCONNECT,
        dtype=None,
        value=compute_bus_bandwidth(rate),
        unit="B/s",
        kind=Obtained.MEASURED,
        source=f"{rate.collective} of {format_bytes(rate.bytes)} among {ranks} ranks by {rate.backend}"
        f"{_format_gpus(rate)}",
        spread=rate.spread,
        confidence=rate.confidence,
        measured_at=rate.measured_at,
        disturbance=rate.disturbance,
    )


def _format_gpus(rate: LinkRate) -> str:
    """The GPUs that it was measured on, and the slowest link between them."""
    return f" on GPUs {', '.join(map(str, rate.gpus))} ({rate.link})" if rate.gpus else ""
