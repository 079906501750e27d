"""Lists the savings of memory that techniques declare for plans."""

from collections.abc import Iterator

from perfkit.core.registry import BrokenPluginError
from perfkit.techniques.base.planning import MemorySaving
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import Technique


def list_savings(ranks: int) -> list[MemorySaving]:
    """The savings on so many ranks, cheapest first; another package's broken technique is left out."""
    kinds = _load_techniques()
    savings = [saving for kind in kinds if kind.min_world_size <= ranks for saving in kind.planning.savings]
    return sorted(savings, key=lambda saving: saving.price)


def _load_techniques() -> Iterator[type[Technique]]:
    for name in TECHNIQUES.list_names():
        try:
            yield TECHNIQUES.load(name)
        except BrokenPluginError:
            continue
