"""Finds out which techniques of a search can act here: alone, or together with one other technique.

Another technique may lift the refusal of one: fused attention on a GPU needs 16 bits, and updates in backward on
several ranks need shards.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import combinations

from perfkit.plan.search.combinations import parse_names
from perfkit.techniques.compose import are_compatible

Names = frozenset[str]


class ActingTechniques:
    """The techniques of a search, and the reasons of those that cannot act, alone and in pairs.

    `add_reason` takes the reasons, "" without one, of what `list_unknown` lists: each technique alone, then each that
    cannot act alone with each other one.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = [*dict.fromkeys(filter(None, names))]
        self._reasons: dict[Names, str] = {}

    def list_unknown(self) -> Iterator[Names]:
        """What is to be tried next; nothing more where all reasons are known."""
        alone = [frozenset((name,)) for name in self._names]
        yield from (each for each in alone if each not in self._reasons)
        if all(each in self._reasons for each in alone):
            yield from (pair for pair in self._list_pairs() if pair not in self._reasons)

    def _list_pairs(self) -> Iterator[Names]:
        for first, second in combinations(self._names, 2):
            if (self._reasons[frozenset((first,))] or self._reasons[frozenset((second,))]) and are_compatible(
                parse_names((first, second))
            ):
                yield frozenset((first, second))

    def add_reason(self, names: Iterable[str], reason: str) -> None:
        self._reasons[frozenset(names)] = reason

    def find_left_out(self) -> dict[str, str]:
        """Techniques that act neither alone nor with another one, with the reason of each alone."""
        return {name: reason for name in self._names if (reason := self._find_reason(name, self._names))}

    def find_refusal(self, names: Collection[str]) -> str:
        """Why a combination cannot act: a technique that acts neither alone nor with one of the others. Else ""."""
        return next((reason for name in names if (reason := self._find_reason(name, names))), "")

    def _find_reason(self, name: str, others: Iterable[str]) -> str:
        alone = self._reasons[frozenset((name,))]
        pairs = (self._reasons.get(frozenset((name, other)), alone) for other in others if other != name)
        return alone if alone and all(pairs) else ""
