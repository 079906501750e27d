"""The ranks of a run as a mesh: stages of a pipeline, replicas, and parts of layers.

Its dimensions, outermost first, as torchtitan orders them (its parallel_dims.py): `pp`, `dp`, `tp`. Ranks that
exchange most lie next to each other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import torch.distributed as dist
from torch.distributed import ProcessGroup, device_mesh
from torch.distributed.device_mesh import DeviceMesh

from perfkit.core.errors import UnavailableError

Dimension = Literal["pp", "dp", "tp"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)


@dataclass(frozen=True)
class RankMesh:
    """Ranks along each dimension, and this rank's place among them.

    Process groups are made on first use, which must happen on all ranks.

    Attributes:
        device: the type of device whose tensors ranks exchange.
        rank: this rank's number in the run.
        sizes: ranks along each dimension; 1 along omitted ones.
    """

    device: str
    rank: int
    sizes: Mapping[Dimension, int]
    _divided: dict[tuple[str, str], DeviceMesh] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        return math.prod(self.sizes.values())

    def size(self, dimension: Dimension) -> int:
        """The number of ranks along a dimension."""
        return self.sizes.get(dimension, 1)

    def place(self, dimension: Dimension) -> int:
        """This rank's number along a dimension."""
        return self.rank // self._get_stride(dimension) % self.size(dimension)

    def is_whole(self, dimension: Dimension) -> bool:
        """True if all ranks of the run lie along this dimension."""
        return self.size(dimension) == self.world_size

    @property
    def samples_of(self) -> tuple[int, ...]:
        """The ranks with this one's place in `dp`: each trains on the batches of all of them."""
        replica, inner = self.place("dp"), self._get_stride("dp")
        within = range(replica * inner, (replica + 1) * inner)
        stages = range(0, self.size("pp") * self._get_stride("pp"), self._get_stride("pp"))
        return tuple(stage + rank for stage in stages for rank in within)

    @cached_property
    def device_mesh(self) -> DeviceMesh:
        """All dimensions with several ranks; `dp` if there are none."""
        names = [name for name in DIMENSIONS if self.size(name) > 1] or ["dp"]
        # By its module, since a plan has another one without fake tensors.
        sizes = tuple(map(self.size, names))
        return device_mesh.init_device_mesh(self.device, sizes, mesh_dim_names=tuple(names))

    def get_submesh(self, dimension: Dimension) -> DeviceMesh:
        """This rank's line of ranks along a dimension that has several."""
        return self.device_mesh if self.is_whole(dimension) else self.device_mesh[dimension]

    def group(self, dimension: Dimension) -> ProcessGroup:
        """The process group of this rank's line."""
        return self.get_submesh(dimension).get_group()

    def divide_dimension(self, dimension: Dimension, inner: int, names: tuple[str, str]) -> DeviceMesh:
        """A dimension as a mesh of two: groups of `inner` ranks next to each other along the second of the names.

        It has the same root as the other dimensions' submeshes. `UnavailableError` where the ranks do not divide, or
        torch (before 2.10) cannot divide a dimension.
        """
        ranks = self.size(dimension)
        if not hasattr(DeviceMesh, "_unflatten"):
            raise UnavailableError("dividing the ranks of a mesh needs torch 2.10: install it", id="skip.package")
        if ranks % inner:
            raise UnavailableError(f"{ranks} ranks cannot be divided into groups of {inner}", id="skip.indivisible")
        if names not in self._divided:
            dimensions = self.device_mesh.mesh_dim_names
            assert dimensions is not None
            at = dimensions.index(dimension)  # by name, torch 2.11 refuses existing dimensions
            self._divided[names] = self.device_mesh._unflatten(at, (ranks // inner, inner), names)[names]
        return self._divided[names]

    @property
    def lines(self) -> dict[str, tuple[int, ...]]:
        """This rank's line along each dimension with several ranks, and along those that it is divided into."""
        lines = {str(name): self._get_line(name) for name in DIMENSIONS if self.size(name) > 1}
        parts = ((name, mesh.get_group(name)) for names, mesh in self._divided.items() for name in names)
        return lines | {name: tuple(dist.get_process_group_ranks(group)) for name, group in parts}

    def _get_line(self, dimension: Dimension) -> tuple[int, ...]:
        stride = self._get_stride(dimension)
        first = self.rank - self.place(dimension) * stride
        return tuple(range(first, first + self.size(dimension) * stride, stride))

    def _get_stride(self, dimension: Dimension) -> int:
        inner = DIMENSIONS[DIMENSIONS.index(dimension) + 1 :]
        return math.prod(map(self.size, inner))
