"""Hugging Face Accelerate: `Accelerator(log_with=PerfkitTracker("runs/x"))`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfkit.attach.profile import Profile
from perfkit.core.optional_deps import explain_import_error
from perfkit.integrations.attachment import Attachment, ProfileContext

try:
    from accelerate.tracking import GeneralTracker
except ModuleNotFoundError as error:
    raise explain_import_error("accelerate", "'perfkit[accelerate]'", error) from None


class PerfkitTracker(ProfileContext, GeneralTracker):  # type: ignore[misc]  # Accelerate has no types
    """Profiles a loop prepared by Accelerate; the optimizers of every rank mark the steps.

    It starts when constructed, since Accelerate starts its trackers only on the main process. It ends with
    `accelerator.end_training()`, on the other ranks at exit, or everywhere with `close()` or the end of `with
    tracker:`.

    Values passed to `log` are not kept: a report shows only measurements, and a tracker cannot verify other numbers.
    Use `loggers`, or another tracker as well.

    Args:
        folder, profile_options: as for `perfkit.profile`.
    """

    name = "perfkit"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, folder: str | Path | None = None, **profile_options: Any) -> None:
        super().__init__()
        self._attachment = Attachment(folder, profile_options)
        self._attachment.begin()

    @property
    def tracker(self) -> Profile | None:
        """The profile while it runs."""
        return self._attachment.profile

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Not kept, as `log`."""

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Not kept: see the class."""

    def finish(self) -> None:
        self._attachment.end()
