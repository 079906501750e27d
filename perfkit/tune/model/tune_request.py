"""What a search for the best variant is asked for."""

from typing import NamedTuple

from perfkit.core.spec import ALL, TechniqueSpec
from perfkit.store.request import BenchRequest
from perfkit.tune.model.tune_result import AllowedLosses, Objective

# Less is not worth a technique.
NOTABLE_SHARE = 0.01

Techniques = tuple[TechniqueSpec, ...]


class TuneRequest(NamedTuple):
    """A search: `bench` has the workload and its conditions, without variants.

    `offered` are the variants to choose from, as `technique` names them. `limit_bytes` is the memory that a rank may
    take, `budget_s` the time of the whole search.
    """

    bench: BenchRequest
    technique: str
    offered: tuple[Techniques, ...]
    objective: Objective
    allow: AllowedLosses
    budget_s: float
    limit_bytes: float | None = None

    @property
    def chosen(self) -> tuple[Techniques, ...]:
        """The offered variants, if their parameters are the user's choice; none where `all` was asked for."""
        return () if ALL in self.technique.split(",") else self.offered
