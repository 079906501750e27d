"""Lists the combinations of techniques that a search goes through, and which of them decide on which.

A combination that does not fit with recomputation, shards or fused attention does not fit without; if it fits without
recomputation, none is needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from perfkit.core.spec import TechniqueSpec, parse_variants
from perfkit.measure.schedule import Techniques
from perfkit.techniques.base.planning import MemoryPrice, MemorySaving
from perfkit.techniques.compose import are_compatible

Ladders = tuple[tuple[str, ...], ...]


class Combination(NamedTuple):
    """A precision, and a position on each ladder; the last is recomputation."""

    precision: str
    levels: tuple[int, ...]

    @property
    def recomputes(self) -> bool:
        return self.levels[-1] > 0

    def list_names(self, ladders: Ladders) -> tuple[str, ...]:
        """The techniques with their parameters, as a search names them."""
        names = (self.precision, *(ladder[level] for ladder, level in zip(ladders, self.levels, strict=True)))
        return tuple(filter(None, names))

    def list_techniques(self, ladders: Ladders) -> Techniques:
        return parse_names(self.list_names(ladders))


def parse_names(names: Iterable[str]) -> Techniques:
    """Techniques by the names of a search: `amp`, `ckpt:mode=selective`."""
    return tuple(spec for name in names for spec in _parse_specs(name))


def _parse_specs(name: str) -> tuple[TechniqueSpec, ...]:
    return parse_variants(name)[0] if name else ()


def list_precisions(savings: Sequence[MemorySaving]) -> tuple[str, ...]:
    """The precisions of a search, of which a combination has one; "" is that of the workload. No ladder: weight casts
    are kept, too."""
    return ("", *(name for saving in savings if not saving.price.is_lossless for name in saving.searched))


def build_ladders(savings: Sequence[MemorySaving]) -> Ladders:
    """The ladders, each step of which takes no more memory than the one before; recomputation comes last."""
    return tuple(_build_ladders(savings))


def _build_ladders(savings: Sequence[MemorySaving]) -> Iterator[tuple[str, ...]]:
    for price in filter(lambda price: price.is_lossless, MemoryPrice):
        searched = [saving.searched for saving in savings if saving.price is price and saving.searched]
        if price is MemoryPrice.NOTHING:
            yield from (("", *names) for names in searched)
        elif searched:
            yield ("", *(name for names in searched for name in names))


def list_combinations(precisions: Iterable[str], ladders: Ladders, without: Iterable[str]) -> list[Combination]:
    """The combinations of techniques that go together, in the order of a search, without these techniques."""
    left_out = frozenset(without)
    levels = [[level for level, name in enumerate(ladder) if name not in left_out] for ladder in ladders]
    listed = (
        Combination(precision, chosen)
        for precision in precisions
        if precision not in left_out
        for chosen in product(*levels)
    )
    compatible = (each for each in listed if are_compatible(each.list_techniques(ladders)))
    return sorted(compatible, key=lambda each: _get_order_key(each, ladders))


def _get_order_key(combination: Combination, ladders: Ladders) -> tuple[int, bool, bool, int]:
    """Search order: largest saving first; of recomputation none, then all, then the levels between."""
    *others, recomputed = combination.levels
    most = len(ladders[-1]) - 1
    return -sum(others), recomputed != 0, recomputed != most, recomputed


def saves_more(other: Combination, combination: Combination) -> bool:
    """True if `combination` does not fit where `other` does not."""
    return other.precision == combination.precision and all(
        more >= less for more, less in zip(other.levels, combination.levels, strict=True)
    )


def recomputes_less(other: Combination, combination: Combination) -> bool:
    """True if `combination` is not needed where `other` fits, and takes longer than it."""
    return (
        other.precision == combination.precision
        and other.levels[:-1] == combination.levels[:-1]
        and other.levels[-1] < combination.levels[-1]
    )
