"""Transfers that take a start each and their bytes over a bandwidth (alpha-beta; Hockney, Parallel Computing 1994)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.plan import Interval


class TransferModel(NamedTuple):
    """Seconds to start one and bytes a second; `spread` is the factor by which it may be off, to either side."""

    start_s: float
    bytes_per_s: float
    spread: float

    def seconds(self, nbytes: float) -> Interval:
        """How long a transfer of so many bytes takes."""
        value = self.start_s + nbytes / self.bytes_per_s
        return Interval(value=value, low=value / self.spread, high=value * self.spread)


def fit_transfers(taken: Iterable[tuple[float, float]]) -> TransferModel:
    """The start and the bandwidth that lie closest, in ratios, to what transfers of so many bytes took in seconds.

    The spread is the standard deviation of these ratios.
    """
    nbytes, seconds = np.array(list(taken)).T
    rows = np.stack([np.ones_like(nbytes), nbytes], axis=1) / seconds[:, None]
    start_s, byte_s = np.maximum(np.linalg.lstsq(rows, np.ones(len(seconds)), rcond=None)[0], 1e-12)
    off = np.log(rows @ [start_s, byte_s])
    return TransferModel(float(start_s), float(1 / byte_s), float(np.exp(np.sqrt(np.mean(off**2)))))
