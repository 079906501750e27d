"""Shares the ranks of a run among techniques: the needs of a combination, and the resulting mesh."""

import math
from collections.abc import Sequence
from typing import Annotated

import msgspec
import torch

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.techniques.base.mesh import DIMENSIONS, Dimension, RankMesh
from perfkit.techniques.base.state import World
from perfkit.techniques.base.technique import RankRequirement, Technique, format_technique
from perfkit.workloads.workload import Workload, count_samples, draw_first_batch


class ModelParallel(Technique):
    """Base of techniques that take ranks of a `dimension` other than `dp` for themselves.

    These ranks work together on the batches of all of them.
    """

    size: (
        Annotated[int, msgspec.Meta(ge=2, description="ranks in the group; default all that no other technique uses")]
        | None
    ) = None

    def ranks(self) -> RankRequirement:
        return RankRequirement(self.size or self.min_world_size, self.size or 1)


def count_needed_ranks(techniques: Sequence[Technique]) -> RankRequirement:
    """Count the ranks that a combination needs, along each dimension."""
    along = [
        _combine_needs([technique.ranks() for technique in techniques if technique.dimension == name])
        for name in DIMENSIONS
    ]
    return RankRequirement(math.prod(need.least for need in along), math.prod(need.multiple for need in along))


def check_shares(techniques: Sequence[Technique]) -> None:
    """Raise `UsageError` where a technique without a size takes the ranks that another needs."""
    taking = [technique for technique in techniques if isinstance(technique, ModelParallel) and technique.size is None]
    needing = [technique for technique in techniques if technique.dimension == "dp" and technique.ranks().least > 1]
    if len(taking) > 1 or (taking and needing):
        first, second = [*taking, *needing][:2]
        raise UsageError(
            f"{format_technique(first)} and {format_technique(second)} cannot be combined: without a size, "
            f"{first.name} takes all remaining ranks, which leaves {second.name} none; give it a size, as in "
            f"{first.name}2"
        )


def _combine_needs(asked: Sequence[RankRequirement]) -> RankRequirement:
    """Combine the needs of techniques that share a dimension."""
    multiple = math.lcm(*(need.multiple for need in asked))
    least = max((need.least for need in asked), default=1)
    return RankRequirement(math.ceil(least / multiple) * multiple, multiple)


def explain_lacking_ranks(needed: RankRequirement, size: int, others: str = "run with --world-size {}") -> str:
    """Explain why this number of ranks does not fit, with fitting ones worded by `others`; empty if it fits."""
    least, multiple = needed
    if size < least:
        return f"needs at least {least} ranks; {others.format(least)}"
    if size % multiple:
        below = size // multiple * multiple
        fitting = " or ".join(str(count) for count in (below, below + multiple) if count >= least)
        return f"needs a multiple of {multiple} ranks, got {size}; {others.format(fitting)}"
    return ""


def split_ranks(techniques: Sequence[Technique], size: int) -> dict[Dimension, int]:
    """Split `size` ranks among the dimensions; `dp` gets the remaining ones.

    Raises `UnavailableError` where the ranks do not serve.
    """
    reason = explain_lacking_ranks(count_needed_ranks(techniques), size)
    if reason:
        raise UnavailableError(
            f"{'+'.join(format_technique(sharing) for sharing in techniques if sharing.ranks().least > 1)} {reason}"
        )
    sizes: dict[Dimension, int] = {}
    taking = [sharing for sharing in techniques if isinstance(sharing, ModelParallel)]
    for technique in sorted(taking, key=lambda sharing: sharing.size is None):
        sizes[technique.dimension] = technique.size or size // math.prod(sizes.values())
    sizes["dp"] = size // math.prod(sizes.values())
    return sizes


def build_mesh(techniques: Sequence[Technique], world: World, device: torch.device) -> RankMesh:
    """The mesh of a run with these techniques; raises what `split_ranks` does."""
    return RankMesh(device.type, world.rank, split_ranks(techniques, world.size))


def check_joined(workload: Workload) -> None:
    """`UnavailableError` where batches of several ranks cannot be one."""
    if workload.step is not None:
        raise UnavailableError(
            f"the workload {workload.name} defines its own step, which takes its rank's batch", id="skip.own_step"
        )
    if workload.make_batch is None:
        raise UnavailableError(
            f"the DataLoader of {workload.name} makes each rank's batches, and all ranks need the same"
        )
    if count_samples(draw_first_batch(workload, torch.Generator().manual_seed(0))) is None:
        raise UnavailableError(
            f"the tensors of a batch of {workload.name} differ in their first dimension", id="skip.batch_dimension"
        )
