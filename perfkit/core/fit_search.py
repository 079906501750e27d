"""The search for what fits: for the largest of ordered candidates, of which each is tried at most once."""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

C = TypeVar("C")
R = TypeVar("R")


class Trials(Generic[C, R]):
    """Trials of candidates, by plan or by run: `results` by the candidates' keys, in the order of the trials.

    `judge` tries a candidate; `progress` receives each new result.
    """

    def __init__(
        self, judge: Callable[[C], R], get_key: Callable[[C], Hashable], progress: Callable[[R], None] = lambda _: None
    ) -> None:
        self.results: dict[Hashable, R] = {}
        self._judge, self._get_key, self._progress = judge, get_key, progress

    def try_candidate(self, candidate: C) -> R:
        """The result of the candidate's only trial."""
        key = self._get_key(candidate)
        if key not in self.results:
            self.results[key] = self._judge(candidate)
            self._progress(self.results[key])
        return self.results[key]


def find_largest_fitting(
    candidates: Sequence[C],
    fits: Callable[[C], bool | None],
    *,
    first: int | None = None,
    step: int | None = None,
    resolution: float = 0.0,
) -> C | None:
    """The largest candidate that fits; None if none is found.

    With `first`, places rise from there until a candidate does not fit, or fall until one fits, in steps that double;
    then they are bisected. The search ends at a candidate of which it is not known whether it fits.

    Args:
        candidates: the smallest first; if one does not fit, no larger one does.
        fits: tries a candidate; None if unknown.
        first: the place of the first trial, from 1 on; without it the search only bisects.
        step: the first step from `first`; by default `first` itself, so that places double, or halve.
        resolution: the share of a place within which candidates are not told apart.
    """
    most = len(candidates)
    low, high = 0, most + 1
    place = high // 2 if first is None else min(first, most)
    step = step or first or high
    while low < place < high and (fitting := fits(candidates[place - 1])) is not None:
        low, high = (place, high) if fitting else (low, place)
        if first is not None and high > most:
            place = min(low + step, most)
        elif not low and step < high:
            place = high - step
        else:
            place = (low + high) // 2 if high - low > low * resolution else low
        step *= 2
    return candidates[low - 1] if low else None
