"""Where the figures of a watched loop go beside its folder: TensorBoard, Weights & Biases, MLflow, a text file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Logger(Protocol):
    """One place that figures are sent to. Its methods are called one at a time, those of a loop that is watched all
    the time from a thread of perfkit's own, since they may wait for a network.

    An exception of one of them is logged once, and this logger is not called again; training goes on.
    """

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Figures as of `step`, by names like `perfkit/step_s`; what is not known is not among them."""

    def report(self, folder: Path) -> None:
        """The folder of a finished run: `report.html` lies in it, and `figures/*.png` where they were drawn."""

    def close(self) -> None:
        """Nothing more will come."""
