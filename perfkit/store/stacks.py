"""Sampled Python stacks: `rank<k>/stacks.json`, a call tree per sampled thread.

Calls form a tree, so that a file grows with the number of distinct stacks, not of samples.
"""

from collections.abc import Iterator
from pathlib import Path

from perfkit.core.files import read_json
from perfkit.core.spec import Struct

STACKS_FILE = "stacks.json"
COLLAPSED_FILE = "stacks.collapsed.txt"
SPEEDSCOPE_FILE = "stacks.speedscope.json"
STACKS_VERSION = 3

LOOP = "loop"  # the thread that trains
WORKER = "loader worker"

# Whose code a function is: of perfkit, of Python or an installed package, else the program's.
OURS, LIBRARY, PROGRAM = "perfkit", "library", "program"

DATA = "data"  # the phase in which a step waits for or makes its batch


class StackFunction(Struct):
    """A function by its qualified name and the file it is defined in; `owner` is whose it is."""

    name: str
    file: str
    owner: str


class StackCall(Struct, array_like=True):
    """A node of the tree: in `function` (an index) at `line`, called from the node `parent`, -1 for the outermost."""

    parent: int
    function: int
    line: int


class StackSamples(Struct, array_like=True):
    """`count` samples whose innermost call was `node`, in `phase` of a step, from their calls ("" for none)."""

    node: int
    phase: str
    count: int


class SampledThread(Struct):
    """The samples of one thread of one process.

    `thread` is its role (`LOOP`, `WORKER`, another program's name), `directory` the working folder of the process. Over
    `seconds` a sample was due `hz` times per second. `lock_samples` are separate samples at the same rate, only those
    in which the thread held the GIL; None if not sampled.
    """

    thread: str
    pid: int
    directory: str
    hz: float
    seconds: float
    functions: tuple[StackFunction, ...] = ()
    calls: tuple[StackCall, ...] = ()
    stack_samples: tuple[StackSamples, ...] = ()
    lock_samples: tuple[StackSamples, ...] | None = None

    @property
    def samples(self) -> int:
        return sum(sample.count for sample in self.stack_samples)

    def stack(self, node: int) -> Iterator[StackCall]:
        """The calls from `node` outwards, the innermost first."""
        while node >= 0:
            call = self.calls[node]
            yield call
            node = call.parent


class SampledStacks(Struct):
    """Contents of `stacks.json`: the training thread of one rank, and its loaders' workers.

    Sampling took `cost_s` of CPU time in `seconds`, outside the program; `failed_samples` samples could not be taken.
    `other_steps_share` is the share of time in steps unlike the timed ones, such as steps that compile or evaluate.
    `reason` says why nothing was sampled, else "".
    """

    schema_version: int = STACKS_VERSION
    threads: tuple[SampledThread, ...] = ()
    seconds: float = 0.0
    cost_s: float = 0.0
    failed_samples: int = 0
    other_steps_share: float = 0.0
    reason: str = ""


def read_stacks(path: Path) -> SampledStacks:
    """Read `SampledStacks` as `write_json` wrote them. A `RunFormatError` names a file that is not it."""
    return read_json(path, SampledStacks)
