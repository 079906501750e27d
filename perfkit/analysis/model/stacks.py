"""Results of sampled Python stacks."""

from perfkit.spec import Struct


class HotLine(Struct):
    """A line of a function, `function` at `place` (`train.py:88`), with shares of all samples.

    `share` are those in which it was the program's innermost line, be it in it or in what it calls of libraries;
    `self_share` those with no Python call below it; `total_share` those in which it was anywhere in the stack.
    `lock_share` is the part of `share` in which the interpreter's lock was held, as other samples tell it, None where
    that is not known. `library_function` is the function of a library that most of `share` were in, "" for none.
    """

    function: str
    place: str
    share: float
    self_share: float
    total_share: float
    lock_share: float | None = None
    library_function: str = ""


class HotPlace(Struct):
    """A share of all samples at a line of the program, for findings."""

    function: str
    place: str
    share: float


class ThreadStacks(Struct):
    """Samples of one thread of each of `processes`, together.

    Shares are of `samples`, those in which it worked: workers that waited for the next batch to be asked of them
    (`idle_samples`) are none. `lock_share` is the share in which the interpreter's lock was held, so that Python ran or
    native code that keeps it; in the others native code ran that lets go of it, or it waited. `perfkit_share` was in
    perfkit's own hooks, `unnamed_share` in no line of the program. `lines` are the program's, `libraries` the innermost
    lines of others. Of the samples with the lock held outside of fetching data, `python_lines` are the lines with most,
    and `data_lines` those of fetching.
    """

    processes: int
    samples: int
    idle_samples: int
    seconds: float
    hz: float
    lock_share: float | None
    perfkit_share: float
    unnamed_share: float
    phases: dict[str, float]
    lines: tuple[HotLine, ...]
    libraries: tuple[HotLine, ...]
    python_lines: tuple[HotPlace, ...]
    data_lines: tuple[HotPlace, ...]


class LoopStacks(Struct):
    """The thread that trains, of all ranks together, and the workers of its loaders; None where none was sampled.

    `sampling_cost` is the CPU time of the sampling as a share of one core, a rank's; `failed_share` is the share of
    samples that could not be taken; `other_steps_share` the most of a rank's time that steps unlike the timed ones
    took. `reason` says why nothing was sampled on a rank, "" where it was on all.
    """

    loop: ThreadStacks | None = None
    workers: ThreadStacks | None = None
    sampling_cost: float = 0.0
    failed_share: float = 0.0
    other_steps_share: float = 0.0
    reason: str = ""
