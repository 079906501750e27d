"""Figures of a watched loop in Weights & Biases."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.attach.host.logger import Logger
from perfkit.core.errors import PerfkitError
from perfkit.integrations.import_library import import_library
from perfkit.integrations.run_files import find_figures, find_report

if TYPE_CHECKING:
    import wandb

STEP = "perfkit/step"  # the x axis of every figure, so that the run's own steps are left alone


class WandbLogger:
    """Logs into `run`, else into the active run when figures arrive, else into its own run.

    `options` are `wandb.init`'s for its own run (`project=...`, `mode="offline"`), which `close` finishes.

    The program's run is never finished, nor is its step advanced, since W&B drops values logged at a past step: the
    newest figures are logged with the program's next `log`. The whole series is in the run folder.

    Raises:
        UnavailableError: wandb is not installed.
    """

    def __init__(self, run: "wandb.Run | None" = None, **options: Any) -> None:
        self._wandb = import_library("wandb", package="wandb", extra="wandb")
        self._given = run
        self._options = options
        self._own: wandb.Run | None = None
        self._theirs: wandb.Run | None = None  # the last run of the program that was logged into

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """A `PerfkitError` where the program has finished the run that was logged into."""
        self._log_data({STEP: step, **values})

    def report(self, folder: Path) -> None:
        """The report as HTML, its static figures as images. A `PerfkitError` as in `scalars`, or without a report."""
        media: dict[str, Any] = {"perfkit/report": self._wandb.Html(str(find_report(folder)), inject=False)}
        for name, path in find_figures(folder).items():
            media[f"perfkit/{name}"] = self._wandb.Image(str(path))
        self._log_data(media)

    def close(self) -> None:
        if self._own is not None:
            self._own.finish()

    def _log_data(self, data: dict[str, Any]) -> None:
        theirs: wandb.Run | None = self._given or self._wandb.run
        if self._own is None and theirs is not None:
            if theirs is not self._theirs:
                self._theirs = _prepare_run(theirs)
            theirs.log(data, commit=False)
            return
        if self._own is None:
            self._own = self._open_run()
        self._own.log(data)

    def _open_run(self) -> "wandb.Run":
        """Open a separate run: it takes none of the program's output, and a later `wandb.init` does not return it."""
        if self._theirs is not None:
            ended = f"the W&B run {self._theirs.id} was finished before perfkit was done"
            raise PerfkitError(f"{ended}: stop perfkit before `wandb.finish()`")
        mode = self._options.get("mode") or self._wandb.setup().settings.mode
        if mode == "online" and not self._wandb.login(
            prompt=False, verify=False
        ):  # `init` would ask at the program's terminal
            raise PerfkitError("not logged in to W&B: run `wandb login`, or set WANDB_MODE=offline")
        settings = self._wandb.Settings(console="off")
        run: wandb.Run = self._wandb.init(reinit="create_new", settings=settings, **self._options)
        # A program's `wandb.init` returns the last active run, even one that was opened separately.
        self._wandb.setup().remove_active_run(run)
        return _prepare_run(run)


def _prepare_run(run: "wandb.Run") -> "wandb.Run":
    run.define_metric(STEP, hidden=True)
    run.define_metric("perfkit/*", step_metric=STEP)
    return run


def create_logger(argument: str, name: str) -> Logger:
    """`wandb`, or `wandb:PROJECT`."""
    return WandbLogger(project=argument or None, name=name or None)
