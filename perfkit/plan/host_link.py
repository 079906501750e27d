"""How long a copy between a GPU and pinned memory of its host takes."""

from typing import NamedTuple

from perfkit.analysis.model.plan import Interval
from perfkit.devices.catalog import CatalogEntry
from perfkit.plan.gpu_links import OF_PCIE


class HostLink(NamedTuple):
    """The link of a GPU to its host: nominal bytes a second in one direction, and the share that copies reach."""

    nominal: float
    share: float

    def seconds(self, nbytes: float) -> Interval:
        """A copy, as fast as the link at best, and as much slower than expected at worst.

        The upper end is an assumption: the same loss once more. The GPU is taken to have the link to itself.
        """
        fastest = nbytes / self.nominal
        return Interval(value=fastest / self.share, low=fastest, high=fastest / self.share**2)


def find_host_link(gpu: CatalogEntry) -> HostLink | None:
    """The link of a GPU of the catalogue, None where that has none. Copies reach what NCCL counts on of PCI Express."""
    return None if gpu.host_link_gb_s is None else HostLink(gpu.host_link_gb_s[0] * 1e9, OF_PCIE)
