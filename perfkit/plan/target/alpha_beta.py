"""Models transfers by start-up time and bandwidth (alpha-beta; Hockney, Parallel Computing 1994)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.plan import Interval


class TransferModel(NamedTuple):
    """Start-up seconds and bytes per second; `spread` is the uncertainty factor."""

    start_s: float
    bytes_per_s: float
    spread: float

    def seconds(self, nbytes: float) -> Interval:
        """Time of a transfer of this many bytes."""
        value = self.start_s + nbytes / self.bytes_per_s
        return Interval(value=value, low=value / self.spread, high=value * self.spread)


def fit_transfers(taken: Iterable[tuple[float, float]]) -> TransferModel:
    """Fit start-up time and bandwidth to measured transfers, by relative error.

    The spread is the standard deviation of these ratios.
    """
    nbytes, seconds = np.array(list(taken)).T
    rows = np.stack([np.ones_like(nbytes), nbytes], axis=1) / seconds[:, None]
    start_s, byte_s = np.maximum(np.linalg.lstsq(rows, np.ones(len(seconds)), rcond=None)[0], 1e-12)
    off = np.log(rows @ [start_s, byte_s])
    return TransferModel(float(start_s), float(1 / byte_s), float(np.exp(np.sqrt(np.mean(off**2)))))
