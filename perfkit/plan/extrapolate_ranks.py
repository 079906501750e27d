"""Extends a suite's plan to more ranks than were measured."""

from msgspec.structs import replace

from perfkit.store.request import BenchRequest, make_rank_fields
from perfkit.techniques.data.batch import PARAMETER

FURTHEST = 4096
_APART = 4  # factor between successive numbers of ranks


def extrapolate_ranks(request: BenchRequest) -> BenchRequest:
    """Extend a request of several numbers of ranks up to `FURTHEST`; for strong scaling, only divisors of the batch.

    A request of one number is unchanged."""
    if not request.world_sizes:
        return request
    whole = int(request.workload.params[PARAMETER]) if request.scaling == "strong" else None
    further = _list_powers(_APART) if whole is None else [size for size in _list_powers(2) if whole % size == 0]
    further = [size for size in further if size > max(request.sizes)]
    return replace(request, **make_rank_fields([*request.sizes, *further]))


def _list_powers(base: int) -> list[int]:
    powers = [base]
    while powers[-1] < FURTHEST:
        powers.append(powers[-1] * base)
    return powers
