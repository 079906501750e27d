"""A rank's last collectives, as torch's flight recorder keeps them: a ring of 2,000 (`TORCH_FR_BUFFER_SIZE`).

NCCL and Gloo record by themselves what is enqueued and what of it has ended; messages between two ranks only NCCL does.
"""

import math
import re
from collections.abc import Mapping

from perfkit.core.spec import Struct
from perfkit.cost.calls.collective import normalize_dtype_name
from perfkit.cost.calls.dtypes import BY_NAME

Shape = tuple[int, ...]

DEFAULT_GROUP = "default_pg"  # torch's description of the group of all ranks

_MOST_SHOWN = 4  # tensors of a list

# Frames of torch, of perfkit's hooks or of generated code; their caller is the program, or a library above torch.
_BELOW = re.compile(
    r"[/\\]perfkit[/\\]attach[/\\]"
    r"|[/\\]torch[/\\](_|autograd|distributed|fx|func|nn|ops|optim|overrides|utils)|^<|^\?\?|^$"
)


class StackFrame(Struct):
    """A call of a Python stack."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


class Tensors(Struct):
    """A rank's inputs or outputs of a collective: shapes and dtypes, in c10 names (`Float`)."""

    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int | None:
        """The bytes; None where a dtype is unknown."""
        known = [BY_NAME.get(normalize_dtype_name(dtype) or "") for dtype in self.dtypes]
        total = 0
        for shape, dtype in zip(self.shapes, known, strict=False):
            if dtype is None:
                return None
            total += math.prod(shape) * dtype.size
        return total if len(known) == len(self.shapes) else None

    def __str__(self) -> str:
        """`[4, 1024] fp32, [7] int64`; of many tensors the first ones."""
        names = [normalize_dtype_name(dtype) or dtype for dtype in self.dtypes] + [""] * len(self.shapes)
        pairs = zip(self.shapes[:_MOST_SHOWN], names, strict=False)
        shown = [f"{list(shape)} {name}".rstrip() for shape, name in pairs]
        more = len(self.shapes) - len(shown)
        return ", ".join([*shown, f"and {more:,} more"] if more else shown)


class RecordedCollective(Struct):
    """One call of one rank.

    `op` is as the backend calls it (`all_reduce`, `_all_gather_base`, `send`), `sequence` its number within the group:
    messages between two ranks (`p2p`) are counted apart, with `peers` as (source, destination), numbers within the
    group. `finished` is whether it has ended, of Gloo with or without an error. `frames` is the Python stack of the
    call, the innermost first; empty where it was not kept.
    """

    number: int  # within the recorder
    group: str
    sequence: int
    op: str
    backend: str
    inputs: Tensors
    outputs: Tensors
    state: str  # `scheduled`, `started`, `completed`
    finished: bool
    p2p: bool = False
    peers: tuple[int, int] | None = None
    frames: tuple[StackFrame, ...] = ()

    @property
    def tensors(self) -> Tensors:
        """The inputs of the call, or its outputs without any."""
        return self.inputs if self.inputs.shapes else self.outputs

    @property
    def call_site(self) -> str:
        """The call site in the program: the innermost frame outside torch and perfkit's hooks; "" without one."""
        return next((str(frame) for frame in self.frames if not _BELOW.search(frame.file)), "")


class ProcessGroup(Struct):
    """A process group: its description (`default_pg`), and its job ranks; none where unknown.

    `ranks` are in the group's own order: the peers of messages are places in it.
    """

    name: str
    description: str
    ranks: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return self.description if self.description not in ("", "undefined") else f"group {self.name}"


class FlightRecord(Struct):
    """The record of one rank. `collectives` are in order of their start; `groups` are by name."""

    version: str
    groups: dict[str, ProcessGroup]
    collectives: tuple[RecordedCollective, ...]

    @property
    def waits_in(self) -> RecordedCollective | None:
        """The first one that it began and has not finished: those after it wait for it. None where all have ended."""
        return next((call for call in self.collectives if not call.finished), None)

    @property
    def last(self) -> RecordedCollective | None:
        """The last one that it entered; None where it entered none."""
        return next(iter(self.collectives[-1:]), None)

    @property
    def dropped(self) -> bool:
        """True if the ring buffer was full and dropped the oldest records."""
        return bool(self.collectives) and self.collectives[0].number > 0


Records = Mapping[int, FlightRecord]  # by rank
