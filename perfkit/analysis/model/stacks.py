"""Results of sampled Python stacks, of a loop or of a running process."""

from typing import ClassVar

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.finding import Finding
from perfkit.core.spec import Struct
from perfkit.store.process import ProcessFacts


class HotLine(Struct):
    """A line of a function, `function` at `place` (`train.py:88`), with shares of all samples.

    `share` is the share with this line as the program's innermost one, in it or in library calls below it. `self_share`
    is the share without a Python call below it. `total_share` is the share with this line anywhere in the stack.
    `lock_share` is the part of `share` with the GIL held, from separate samples, None where unknown. `library_function`
    is the library function with most of `share`, "" without one.
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

    `samples` are those in which it worked, the base of all shares. `idle_samples` are those of workers that waited for
    a request. `lock_share` is the share with the GIL held; in the others native code without it ran, or the thread
    waited. `perfkit_share` is the share in perfkit's own hooks. `unnamed_share` is the share in no line of the program.
    `lines` are the program's lines. `libraries` are the innermost lines of libraries. `python_lines` are the lines with
    most samples with the GIL held, outside data fetching. `data_lines` are those of data fetching.
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


class LoopActivity(Struct):
    """What the training thread did besides training: the `share` of its samples, and the `place` of most of them.

    `name` is of a pattern (`perfkit.analysis.stacks.activities`).
    """

    name: str
    samples: int
    share: float
    place: str


class LoopStacks(Struct):
    """The training thread, merged over ranks, and the workers of its loaders; None where none was sampled.

    `activities` are those of the training thread that do not train, the longest first.
    `sampling_cost` is the CPU time of sampling as a share of one core, per rank. `failed_share` is the share of failed
    samples. `other_steps_share` is the largest share of a rank's time in steps unlike the timed ones. `reason` says why
    a rank was not sampled, "" where all were.
    """

    loop: ThreadStacks | None = None
    workers: ThreadStacks | None = None
    sampling_cost: float = 0.0
    failed_share: float = 0.0
    other_steps_share: float = 0.0
    reason: str = ""
    activities: tuple[LoopActivity, ...] = ()


PROCESS_VERSION = 7


class WatchedThread(Struct):
    """A thread of a process: `main` is the one that the process began with, of the process that was asked for or, if
    that is a launcher, of each of its ranks. `rank` is None where there are none, or
    it is unknown."""

    pid: int
    name: str
    main: bool
    stacks: ThreadStacks
    rank: int | None = None


class ProcessAnalysis(DisplayMixin, Struct):
    """A report on a running process. The main thread comes first, then those with most samples in the program."""

    subject: ClassVar[str] = "process"
    schema_version: int = PROCESS_VERSION
    created_at: str
    perfkit: str
    command: str
    process: ProcessFacts
    threads: tuple[WatchedThread, ...]
    findings: tuple[Finding, ...]
