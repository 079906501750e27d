"""Models copies between a GPU and pinned host memory."""

from typing import NamedTuple

from perfkit.analysis.model.plan import Interval
from perfkit.devices.catalog.catalog import CatalogEntry
from perfkit.plan.timing.gpu_links import OF_PCIE


class HostLink(NamedTuple):
    """A GPU's link to its host: nominal bytes per second in one direction, and the share that copies reach."""

    nominal: float
    share: float

    def seconds(self, nbytes: float) -> Interval:
        """The time of a copy: at best at the link's rate, at worst with twice the expected loss.

        The upper end is an assumption. The GPU is assumed to have the link to itself.
        """
        fastest = nbytes / self.nominal
        return Interval(value=fastest / self.share, low=fastest, high=fastest / self.share**2)


def find_host_link(gpu: CatalogEntry) -> HostLink | None:
    """The host link of a cataloged GPU, or None. Copies reach NCCL's assumed share of PCI Express."""
    return None if gpu.host_link_gb_s is None else HostLink(gpu.host_link_gb_s[0] * 1e9, OF_PCIE)
