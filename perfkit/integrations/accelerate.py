"""Hugging Face Accelerate: `Accelerator(log_with=PerfkitTracker("runs/x"))`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfkit.attach.profile import Profile
from perfkit.integrations.attachment import Attachment, ProfileContext
from perfkit.optional_deps import explain_import_error

try:
    from accelerate.tracking import GeneralTracker
except ModuleNotFoundError as error:
    raise explain_import_error("accelerate", "'perfkit[accelerate]'", error) from None


class PerfkitTracker(ProfileContext, GeneralTracker):  # type: ignore[misc]  # Accelerate has no types
    """Profiles a loop that Accelerate prepares; steps are told by the optimizers, of every rank.

    It begins where it is made, since Accelerate starts its trackers on the main process alone, whatever they ask for.
    It ends with `accelerator.end_training()`, on the other ranks when they exit, or everywhere with `close()` or the
    end of `with tracker:`.

    What is given to `log` is not kept: a report says what was measured, and a tracker cannot know when the numbers
    that it is given were true. Use `loggers` or another tracker beside this one.

    Args:
        folder, profile_options: as `perfkit.profile` takes them.
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
