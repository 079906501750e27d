"""Numbers of GPUs to plan for: parsed from `--gpus`, and searched for the fewest that fit."""

import re
from collections.abc import Callable, Sequence

from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.errors import UsageError

_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def parse_counts(text: str) -> tuple[int, ...]:
    """`8`, `1,4,6`, or `1..64`, which doubles from the first on; a `UsageError` for anything else."""
    match = _RANGE.fullmatch(text.strip())
    if match is not None:
        first, last = map(int, match.groups())
        counts = [first << power for power in range(last.bit_length()) if 0 < first << power <= last]
    else:
        words = [word.strip() for word in text.split(",")]
        counts = [int(word) for word in words if word.isdecimal()]
        counts = [] if len(counts) < len(words) else counts
    if not counts or min(counts) < 1:
        raise UsageError(
            f"--gpus: {text!r}: expected a number of GPUs, several such as 1,4,8, or a range such as 1..64"
        )
    return tuple(sorted(set(counts)))


def search_counts(counts: Sequence[int], plan: Callable[[int], PlannedVariant]) -> list[PlannedVariant]:
    """Plan a variant on the fewest GPUs that fit, found by bisection, and on all larger numbers, from the fewest on.

    More GPUs never need more memory each. What was planned on the way is among the results.
    """
    planned: dict[int, PlannedVariant] = {}

    def fits(place: int) -> bool:
        count = counts[place]
        if count not in planned:
            planned[count] = plan(count)
        return bool(planned[count].fits)

    low, high = 0, len(counts)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    for place in range(low, len(counts)):
        fits(place)
    return [planned[count] for count in sorted(planned)]
