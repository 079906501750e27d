"""Facts about a running process in addition to its stacks."""

from perfkit.record import Quantity
from perfkit.spec import Struct


class ProcessFacts(Struct):
    """A process that was looked at from outside, for `seconds`, `hz` times a second.

    `age_s` is since its start; `cpu` in cores, itself and its children while it was looked at; `resident` in bytes,
    itself alone, at the beginning, as are `threads` and `children` (all below it); `device_memory` in bytes, of it and
    its children. `has_ended` says that it ended meanwhile. `failed_samples` samples could not be taken. `interrupted`
    says that a Ctrl-C ended the look.
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
