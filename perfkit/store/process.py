"""Facts about a running process in addition to its stacks."""

from perfkit.core.record.quantity import Quantity
from perfkit.core.spec import Struct


class ProcessFacts(Struct):
    """A process sampled from outside, for `seconds`, `hz` times per second.

    `age_s` is the time since its start; `cpu` in cores, of itself and its children during sampling; `resident` in
    bytes, of itself, at the beginning, as are `threads` and `children` (all descendants); `device_memory` in bytes, of
    it and its children. `has_ended` says that it ended meanwhile. `failed_samples` samples could not be taken.
    `interrupted` says that Ctrl-C ended sampling.

    Of a launcher, `ranks` are the ranks of its workers and of what they started, by process id, None where unknown, and
    `rank_pids` the workers in the order of their ranks; `resident` and `threads` are of these. Empty for any other
    process. `spawned`: `torch.multiprocessing` started the workers, and a rank is a worker's index.
    """

    pid: int
    command: tuple[str, ...]
    directory: str
    age_s: float
    cpu: Quantity
    resident: Quantity
    threads: int
    children: int
    device_memory: Quantity
    hz: float
    seconds: float
    has_ended: bool = False
    failed_samples: int = 0
    interrupted: bool = False
    ranks: dict[int, int | None] = {}
    rank_pids: tuple[int, ...] = ()
    spawned: bool = False
