"""Lightning, under either of its names: `Trainer(callbacks=[PerfkitCallback("runs/x")])`."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from perfkit.core.optional_deps import make_missing_package_error
from perfkit.integrations.attachment import Attachment, ProfileContext


def _find_callback_classes() -> tuple[type, ...]:
    """The class `Callback` of every installed Lightning: a Trainer accepts only that of its own package."""
    modules = [
        name for name in ("lightning.pytorch", "pytorch_lightning") if importlib.util.find_spec(name.partition(".")[0])
    ]
    if not modules:
        raise make_missing_package_error("lightning", "'perfkit[lightning]'")
    return tuple(importlib.import_module(name).Callback for name in modules)


class PerfkitCallback(ProfileContext, *_find_callback_classes()):  # type: ignore[misc]  # bases that only the installation knows
    """Profiles `trainer.fit(...)`: a step ends with a batch in which an optimizer has stepped.

    So a step is one update over `accumulate_grad_batches` batches, and in manual optimization one batch, however many
    optimizers step in it. Steps that a validation goes before are left out of the times; saving a checkpoint
    counts. The check of the validation loop before training is not watched, an exception in training is recorded.

    Args:
        folder, profile_options: as `perfkit.profile` takes them.
    """

    def __init__(self, folder: str | Path | None = None, **profile_options: Any) -> None:
        self._attachment = Attachment(folder, profile_options)
        self._updates = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._updates = trainer.global_step
        self._attachment.begin(lambda: {"model": pl_module, "optimizer": tuple(trainer.optimizers)}, by_hand=True)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        # Counts the steps of all optimizers, and none while gradients are accumulated.
        if trainer.global_step != self._updates:
            self._updates = trainer.global_step
            self._attachment.step()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._attachment.evaluated()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._attachment.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._attachment.end(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._attachment.end()
