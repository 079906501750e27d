"""The profile of a framework's training, which begins and ends where the framework's hooks say."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch.optim import Optimizer

from perfkit.attach.host.guard import Guard
from perfkit.attach.profile import Profile, profile


class Attachment:
    """A `Profile` that is made when training begins: only then are model, optimizer and process group known.

    Args:
        folder: as for `perfkit.profile`.
        options: its other arguments, which override the framework's. Invalid ones are refused here, in the user's own
            line.
    """

    def __init__(self, folder: str | Path | None, options: Mapping[str, Any]) -> None:
        profile(folder, **options)
        self.profile: Profile | None = None
        self._folder = folder
        self._options = dict(options)

    def begin(self, known: Callable[[], Mapping[str, Any]] = dict, *, by_hand: bool = False) -> None:
        """Start a profile; `known` returns the arguments of `perfkit.profile` that the framework knows.

        With `by_hand`, calls of `step` mark the steps, else the optimizers do.

        An unfinished profile was left by an exception that the framework did not report, and is finished first.
        """
        self.end(RuntimeError("training restarted after it ended early"))
        # A guard acts only in the process that made it, and a framework may have started this one since.
        Guard(self._drop_profile)(self._start_profile, known, by_hand)

    def step(self) -> None:
        if self.profile is not None:
            self.profile.step()

    def evaluated(self) -> None:
        """An evaluation has run since the last step."""
        if self.profile is not None:
            self.profile.evaluated()

    def end(self, error: BaseException | None = None) -> None:
        """Finish the current profile, if any; `error` is the exception that ended training."""
        ended, self.profile = self.profile, None
        if ended is not None:
            ended.stop(error)

    def _start_profile(self, known: Callable[[], Mapping[str, Any]], by_hand: bool) -> None:
        self.profile = profile(self._folder, **{**known(), **self._options}).start(by_hand=by_hand)

    def _drop_profile(self) -> None:
        self.profile = None


class ProfileContext:
    """Base of the callbacks: ends the profile where the framework does not report training's end.

    A callback is a context manager: `with PerfkitCallback("runs/x") as callback:` around the training finishes the
    profile in any case, and records an exception that ends it. Without it, a profile that no hook has ended is finished
    when the process exits.
    """

    _attachment: Attachment

    def close(self, error: BaseException | None = None) -> None:
        """Finish the profile and write its results; do nothing if none has begun, or it has ended."""
        self._attachment.end(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close(error)


def unwrap_optimizer(optimizer: Any) -> Any:
    """The optimizer that steps, inside of wrappers such as Accelerate's; None stays None."""
    inner = getattr(optimizer, "optimizer", None)
    return unwrap_optimizer(inner) if isinstance(inner, Optimizer) else optimizer
