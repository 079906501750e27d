"""A suite on several numbers of ranks: the request for each of them."""

from collections.abc import Callable

from msgspec.structs import replace

from perfkit.core.spec import TechniqueSpec, WorkloadSpec
from perfkit.store.request import BenchRequest
from perfkit.techniques.base.rank_sharing import explain_lacking_ranks
from perfkit.techniques.base.technique import RankRequirement
from perfkit.techniques.compose import resize_workload
from perfkit.techniques.data.batch import PARAMETER

RanksNeeded = Callable[[tuple[TechniqueSpec, ...]], RankRequirement]  # the ranks that techniques need


def split_by_world_size(request: BenchRequest, needed: RanksNeeded) -> tuple[BenchRequest, ...]:
    """The request of each number of ranks, from the fewest on, with the variants that run there: the baseline and those
    that such a number serves. What none of them serves is left among the variants of the most.

    Where it is not said on how many ranks, it is the request itself.
    """
    sizes = sorted(request.sizes)
    if not sizes:
        return (request,)
    variants = [(variant, needed(variant)) for variant in request.variants]
    served = [
        (variant, [size for size in sizes if not explain_lacking_ranks(ranks, size)] or sizes[-1:])
        for variant, ranks in variants
    ]
    of_each = [(size, tuple(variant for variant, fitting in served if size in fitting)) for size in sizes]
    return tuple(
        replace(set_world_size(request, size), variants=variants if len(sizes) == 1 else ((), *filter(None, variants)))
        for size, variants in of_each
    )


def set_world_size(request: BenchRequest, ranks: int) -> BenchRequest:
    """The request on this number of ranks alone."""
    return replace(request, world_size=ranks, world_sizes=())


def build_rank_workload(request: BenchRequest, techniques: tuple[TechniqueSpec, ...], ranks: int) -> WorkloadSpec:
    """The workload of a rank among `ranks`, with the sizes that techniques set.

    With strong scaling its batch is divided among them: `perfkit.measure.resolve_request` has checked that it can be.
    """
    workload = resize_workload(request.workload, techniques)
    return divide_batch(workload, ranks) if request.scaling == "strong" else workload


def divide_batch(workload: WorkloadSpec, ranks: int) -> WorkloadSpec:
    """The workload of a rank among several that share its batch."""
    return workload.replace_params(**{PARAMETER: int(workload.params[PARAMETER]) // ranks})


def explain_own_batch(request: BenchRequest, techniques: tuple[TechniqueSpec, ...]) -> str:
    """Explain why techniques with their own batch are not measured with strong scaling; empty for others."""
    bare = WorkloadSpec(name=request.workload.name)
    if request.scaling == "weak" or PARAMETER not in resize_workload(bare, techniques).params:
        return ""
    return "it gives each rank its own batch, and --scaling strong fixes the global batch"
