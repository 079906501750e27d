"""Lightning Fabric: `Fabric(callbacks=[PerfkitFabricCallback("runs/x")])`."""

from pathlib import Path
from typing import Any

from perfkit.integrations.attachment import Attachment, ProfileContext


class PerfkitFabricCallback(ProfileContext):
    """Profiles a loop that Fabric's `setup` prepares; steps are told by the optimizers.

    It begins with the first `fabric.setup(...)`, when the processes of `fabric.launch()` are there, or, where models
    and optimizers are set up each on their own, of which Fabric tells nobody, with an optimizer's first step. It ends
    with `fabric.call("on_train_end")`, with `close()` or the end of `with callback:`, or when the process exits, and
    does not begin again.

    Needs no base class of Fabric's, so it is the same for `lightning.fabric` and `lightning_fabric`.

    Args:
        folder, profile_options: as `perfkit.profile` takes them.
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
