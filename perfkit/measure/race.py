"""Decides what variants are compared with, and which of a race are not worth another round."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from perfkit.core.sampling import compute_log_interval, is_narrow
from perfkit.core.spec import RunSpec
from perfkit.store.request import BenchRequest

# A variant without a gain in so many rounds is measured no further: a small gain may be missed, and time is won for
# others.
_ROUNDS_WITHOUT_GAIN = 2

# Where a variant's margin over another one is measured, its gain over the baseline is known well enough to this part of
# it, and the margin to that: its interval then ends halfway to no margin, and looking at it after each round has not
# made one out of chance.
_GAIN_SHARE, _MARGIN_SHARE = 0.1, 0.5


def find_race_bases(
    request: BenchRequest, specs: Mapping[str, RunSpec], references: Mapping[str, str]
) -> dict[str, str]:
    """What each variant is compared with: the request's `race_base` where both have one reference, else that."""
    extended = next((name for name, spec in specs.items() if spec.techniques == request.race_base), "")
    if not request.race_base or extended not in references:
        return dict(references)
    shared = references[extended]
    return {
        name: extended if reference == shared and name != extended else reference
        for name, reference in references.items()
    }


def is_gain_known(logs: Sequence[float], precision: float) -> bool:
    """True if a gain over the baseline is known well enough to measure only the margin over another variant on."""
    return is_narrow(logs, precision, gain_share=_GAIN_SHARE)


def is_margin_known(logs: Sequence[float], precision: float) -> bool:
    """True if a margin over another variant is proven, or is none of at least the `precision`."""
    return is_narrow(logs, precision, gain_share=_MARGIN_SHARE)


def is_race_decided(
    over_base: Sequence[float], over_reference: Sequence[float], rivals: Collection[list[float]]
) -> bool:
    """True if more rounds would hardly change whether a variant is taken.

    It is certainly faster or slower than the variant it extends, shows no gain in a few rounds, or is certainly slower
    than the fastest rival, by intervals apart. Given are log ratios of step times, one a round: over the variant that
    it extends, and over the reference, of it and of its `rivals`.
    """
    interval = compute_log_interval(over_base, until_narrow=True)
    if interval is not None and not interval[0] <= 0.0 <= interval[1]:
        return True
    if len(over_base) >= _ROUNDS_WITHOUT_GAIN and fmean(over_base) >= 0.0:
        return True
    ours = compute_log_interval(over_reference, until_narrow=True)
    theirs = [compute_log_interval(logs, until_narrow=True) for logs in rivals]
    fastest = min((high for _, high in filter(None, theirs)), default=None)
    return ours is not None and fastest is not None and ours[0] > fastest
