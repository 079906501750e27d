"""Sends the figures of a watched loop to other tools: TensorBoard, Weights & Biases, MLflow, a text file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Logger(Protocol):
    """One place that figures are sent to. Its methods are called one at a time, those of a loop that is watched all
    the time from a thread of perfkit's own, since they may wait for a network.

    An exception of one of them is logged once, and this logger is not called again; training goes on.
    """

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Send figures as of `step`, with names such as `perfkit/step_s`, without unknown ones."""

    def report(self, folder: Path) -> None:
        """Send the folder of a finished run: it contains `report.html`, and `figures/*.png` where drawn."""

    def close(self) -> None:
        """Nothing more will come."""
