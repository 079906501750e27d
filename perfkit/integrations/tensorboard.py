"""Figures of a watched loop in TensorBoard."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from perfkit.attach.host.logger import Logger
from perfkit.core.errors import UsageError
from perfkit.integrations.import_library import import_library
from perfkit.integrations.run_files import find_figures, find_report

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FLUSH_S = 10  # a job that is watched should be seen sooner than torch's two minutes


class TensorBoardLogger:
    """Writes to a folder for TensorBoard, or through an open `SummaryWriter`, which stays open.

    Figures become scalars `perfkit/...`; the report's static figures images `perfkit/roofline` and so on, and a text
    `perfkit/report` gives the report's path.

    Raises:
        UnavailableError: TensorBoard is not installed.
    """

    def __init__(self, target: "str | Path | SummaryWriter") -> None:
        module = import_library("torch.utils.tensorboard", package="tensorboard", extra="tensorboard")
        self._own = isinstance(target, str | os.PathLike)
        self._writer: SummaryWriter = (
            module.SummaryWriter(str(target), flush_secs=FLUSH_S) if isinstance(target, str | os.PathLike) else target
        )
        self._step = 0

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._step = step
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def report(self, folder: Path) -> None:
        """The figures, and where the report is. A `PerfkitError` where none was written."""
        report = find_report(folder)
        for name, path in find_figures(folder).items():
            with Image.open(path) as image:
                self._writer.add_image(
                    f"perfkit/{name}", np.asarray(image.convert("RGB")), self._step, dataformats="HWC"
                )
        self._writer.add_text("perfkit/report", _format_link(report, str(self._writer.get_logdir())), self._step)
        self._writer.flush()

    def close(self) -> None:
        if self._own:
            self._writer.close()
        else:
            self._writer.flush()


def _format_link(report: Path, log_dir: str) -> str:
    """Markdown. TensorBoard shows a link to a file as its text, to be copied: browsers do not follow it from a page."""
    url = report.as_uri()
    lines = [f"[{url}]({url})"]
    if "://" not in log_dir:
        lines.append(f"`{os.path.relpath(report, log_dir)}` from the log folder")
    return "\n\n".join((f"perfkit's {report.name}:", *lines))


def create_logger(argument: str, _: str) -> Logger:
    """`tensorboard:DIR`."""
    if not argument:
        raise UsageError("tensorboard needs a folder to write to: tensorboard:FOLDER")
    return TensorBoardLogger(argument)
