"""Lightning Fabric: `Fabric(callbacks=[PerfkitFabricCallback("runs/x")])`."""

from pathlib import Path
from typing import Any

from perfkit.integrations.attachment import Attachment, ProfileContext


class PerfkitFabricCallback(ProfileContext):
    """Profiles a loop prepared by Fabric's `setup`; the optimizers mark the steps.

    It starts with the first `fabric.setup(...)`, when the processes of `fabric.launch()` exist, or with an optimizer's
    first step if models and optimizers are set up separately, which Fabric does not report. It ends with
    `fabric.call("on_train_end")`, with `close()` or the end of `with callback:`, or at exit, and does not restart.

    It has no Fabric base class, so it works with both `lightning.fabric` and `lightning_fabric`.

    Args:
        folder, profile_options: as for `perfkit.profile`.
    """

    def __init__(self, folder: str | Path | None = None, **profile_options: Any) -> None:
        self._attachment = Attachment(folder, profile_options)
        self._begun = False

    def on_after_setup(self, fabric: Any, module: Any) -> None:
        self._begin_once()

    def on_after_optimizer_step(self, strategy: Any, optimizer: Any) -> None:
        self._begin_once()

    def on_train_end(self) -> None:
        self._attachment.end()

    def on_exception(self, exception: BaseException) -> None:
        """For `fabric.call("on_exception", error)`: Fabric itself does not call it."""
        self._attachment.end(exception)

    def _begin_once(self) -> None:
        if not self._begun:
            self._begun = True
            self._attachment.begin()
