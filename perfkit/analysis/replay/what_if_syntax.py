"""A what-if as text and as data: `aten::mm=0.8,elementwise=0.5,comm=0,sync=none,graphs,fuse=elementwise`."""

import math
from dataclasses import dataclass

from perfkit.analysis.replay.replay_work import COMMUNICATION, COPIES, KERNELS, WORDS
from perfkit.core.errors import UsageError

HOST, SYNC, GRAPHS, FUSE, NOTHING = "host", "sync", "graphs", "fuse", "none"
RANGE = "range:"

_FORM = (
    f"expected WHAT=FACTOR, {SYNC}={NOTHING}, {GRAPHS} or {FUSE}=WHAT, separated by commas; WHAT is an op, a kernel, a "
    f"pattern of names, {', '.join([*WORDS, KERNELS, COMMUNICATION, COPIES, HOST])}, module:PATTERN, phase:NAME or "
    "range:PATTERN"
)


@dataclass(frozen=True)
class WhatIf:
    """A combination of changes.

    `factors`: what takes which part of its time; `host` likewise for all that the host does. `without_syncs`: calls
    that only wait are gone. `graphs`: steps are launched as CUDA graphs. `fused`: neighbors of these kinds run as one.
    """

    factors: tuple[tuple[str, float], ...] = ()
    host: float = 1.0
    without_syncs: bool = False
    graphs: bool = False
    fused: tuple[str, ...] = ()


def parse_what_if(text: str) -> WhatIf:
    """Parse a what-if text; `UsageError` says what is wrong with it."""
    factors: list[tuple[str, float]] = []
    fused: list[str] = []
    host, without_syncs, graphs = 1.0, False, False
    for part in (piece.strip() for piece in text.split(",")):
        what, sign, value = part.rpartition("=") if "=" in part else (part, "", "")
        if part == GRAPHS:
            graphs = True
        elif what == FUSE and value:
            fused.append(value)
        elif what == SYNC and value in (NOTHING, "0"):
            without_syncs = True
        elif what and sign:
            factor = _parse_factor(value, part)
            if what == HOST:
                host = factor
            else:
                factors.append((what, factor))
        else:
            raise UsageError(f"--what-if {part!r}: {_FORM}")
    return WhatIf(tuple(factors), host, without_syncs, graphs, tuple(fused))


def _parse_factor(value: str, part: str) -> float:
    try:
        factor = 0.0 if value == NOTHING else float(value)
    except ValueError:
        factor = math.nan
    if not 0 <= factor < math.inf:
        raise UsageError(f"--what-if {part!r}: expected a time factor such as 0.5, got {value!r}")
    return factor
