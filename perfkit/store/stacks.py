"""Sampled Python stacks: `rank<k>/stacks.json`, a tree of calls for each process that was sampled.

What called what is a tree, so that the size of a file grows with the number of different stacks, not of samples.
"""

from collections.abc import Iterator

from perfkit.spec import Struct

STACKS_FILE = "stacks.json"
COLLAPSED_FILE = "stacks.collapsed.txt"
SPEEDSCOPE_FILE = "stacks.speedscope.json"
STACKS_VERSION = 1

LOOP = "loop"  # the thread that trains
WORKER = "loader worker"

# Whose code a function is: of perfkit, of Python or an installed package, else the program's.
OURS, LIBRARY, PROGRAM = "perfkit", "library", "program"

# What a thread did with the interpreter's lock when a sample was due.
HELD, FREE, UNTOLD = "held", "free", "unknown"


class StackFunction(Struct):
    """A function by its qualified name and the file it is defined in; `owner` is whose it is."""

    name: str
    file: str
    owner: str


class Call(Struct, array_like=True):
    """A node of the tree: in `function` (an index) at `line`, called from the node `parent`, -1 for the outermost."""

    parent: int
    function: int
    line: int


class Taken(Struct, array_like=True):
    """`count` samples whose innermost call was `node`, in `phase` of a step ("" for none); `lock` is `HELD`, `FREE` or
    `UNTOLD`."""

    node: int
    phase: str
    lock: str
    count: int


class SampledThread(Struct):
    """The samples of one thread of one process.

    `thread` is what it is (`LOOP`, `WORKER`, another program's name for it), `directory` the folder that the process
    runs in. Over `seconds` a sample was due `hz` times a second; one that came late stands for all that were due
    meanwhile. `cost_s` is the CPU time that taking them took, and `lock_s` how long the lock was kept for it. `late` of
    the samples were taken while other threads ran Python: these are of where the thread let go of the lock next, up to
    `late_s` after they were due. `cut` had no room in the tree and count for a caller.
    """

    thread: str
    pid: int
    directory: str
    hz: float
    seconds: float
    functions: tuple[StackFunction, ...] = ()
    calls: tuple[Call, ...] = ()
    taken: tuple[Taken, ...] = ()
    cost_s: float = 0.0
    lock_s: float = 0.0
    late: int = 0
    late_s: float = 0.0
    cut: int = 0

    @property
    def samples(self) -> int:
        return sum(each.count for each in self.taken)

    def stack(self, node: int) -> Iterator[Call]:
        """The calls from `node` outwards, the innermost first."""
        while node >= 0:
            call = self.calls[node]
            yield call
            node = call.parent


class Stacks(Struct):
    """What `stacks.json` holds: of one rank the thread that trains, and its loaders' workers."""

    schema_version: int = STACKS_VERSION
    threads: tuple[SampledThread, ...] = ()
