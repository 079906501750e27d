"""Times of collectives between ranks of one machine, and interpolation to other message sizes."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from perfkit.devices.ceilings.ceiling import Confidence, LinkRate
from perfkit.devices.ceilings.repeats import SPREAD_TOLERANCE

_Key = tuple[str, int, int, str]


def merge_rates(rates: Iterable[LinkRate]) -> tuple[LinkRate, ...]:
    """The fastest of each collective, number of ranks, size and kind of link, whichever calibration it is from.

    What a disturbed calibration reached was reached. The result is called disturbed unless an undisturbed one came as
    close as two good ones do, and short where no full one was made.
    """
    best: dict[_Key, LinkRate] = {}
    undisturbed: dict[_Key, float] = {}
    full: set[_Key] = set()
    for rate in rates:
        key = rate.collective, rate.ranks, rate.bytes, rate.link
        best[key] = min(best.get(key, rate), rate, key=lambda each: each.seconds)
        if not rate.disturbance:
            undisturbed[key] = min(undisturbed.get(key, rate.seconds), rate.seconds)
        if not rate.short:
            full.add(key)

    def confirmed(key: _Key, rate: LinkRate) -> bool:
        return key in undisturbed and rate.seconds >= (1 - SPREAD_TOLERANCE) * undisturbed[key]

    return tuple(
        replace(rate, disturbance="" if confirmed(key, rate) else rate.disturbance, short=key not in full)
        for key, rate in sorted(best.items())
    )


def select_link_rates(rates: Iterable[LinkRate], ranks: int, link: str) -> tuple[LinkRate, ...]:
    """Leave out rates between this number of ranks over other kinds of links than the one that runs use."""
    return tuple(rate for rate in rates if rate.ranks != ranks or rate.link == link)


def has_several_links(rates: Iterable[LinkRate], ranks: int) -> bool:
    """True if several kinds of links were measured for this number of ranks, so that none is known to apply."""
    return len({rate.link for rate in rates if rate.ranks == ranks}) > 1


def interpolate_rate(rates: Sequence[LinkRate], collective: str, ranks: int, nbytes: float) -> LinkRate | None:
    """Interpolate the minimum time of a message: linearly between two measured sizes, constant below the smallest, at
    the largest one's rate above.

    None if the collective was not measured among this number of ranks, or over several kinds of links: a rate bounds
    only messages over its own kind.
    """
    known = sorted((rate for rate in rates if (rate.collective, rate.ranks) == (collective, ranks)), key=_get_size)
    if not known or nbytes <= 0 or has_several_links(known, ranks):
        return None
    for below, above in pairwise(known):
        if below.bytes <= nbytes <= above.bytes:
            share = (nbytes - below.bytes) / (above.bytes - below.bytes)
            nearest = above if share > 1 / 2 else below
            doubtful = any(measured.confidence == Confidence.LOW for measured in (below, above))
            return replace(
                nearest,
                bytes=round(nbytes),
                seconds=below.seconds + share * (above.seconds - below.seconds),
                confidence=Confidence.LOW if doubtful else nearest.confidence,
                disturbance=below.disturbance or above.disturbance,
            )
    end = known[0] if nbytes < known[0].bytes else known[-1]
    longer = max(1.0, nbytes / end.bytes)
    return replace(end, bytes=round(nbytes), seconds=end.seconds * longer)


def _get_size(rate: LinkRate) -> int:
    return rate.bytes
