"""More ranks than are measured: what a plan of a suite on several numbers of ranks goes on to."""

from msgspec.structs import replace

from perfkit.store.request import BenchRequest, make_rank_fields
from perfkit.techniques.batch import PARAMETER

FURTHEST = 4096
_APART = 4  # times as many ranks as before, which the curve is smooth between


def extrapolate_ranks(request: BenchRequest) -> BenchRequest:
    """A request of several numbers of ranks with more of them, up to `FURTHEST`; of strong scaling those among which
    the batch still divides. Of one number it is the request itself."""
    if not request.world_sizes:
        return request
    whole = int(request.workload.params[PARAMETER]) if request.scaling == "strong" else None
    further = _list_powers(_APART) if whole is None else [size for size in _list_powers(2) if whole % size == 0]
    further = [size for size in further if size > max(request.sizes)]
    return replace(request, **make_rank_fields([*request.sizes, *further]))


def _list_powers(base: int) -> list[int]:
    found = [base]
    while found[-1] < FURTHEST:
        found.append(found[-1] * base)
    return found
