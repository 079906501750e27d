"""FLOPs and bytes that a trace states of its kernels, because the compiler that made them counted them (XLA)."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.trace.model import NONE

Floats = NDArray[np.float64]


def read_reported_costs(pieces: WorkItems) -> tuple[Floats, Floats]:
    """FLOPs and bytes of each piece as recorded in the trace; NaN where absent or modeled.

    Bytes are those that the compiler expects the kernel to read and write. Where both are 0 it does not know them: so
    it is for code that it did not make.
    """
    trace = pieces.ops.trace
    rows = np.asarray(
        [(statement.flops, statement.bytes) for statement in trace.statements] + [(NONE, NONE)], np.float64
    )
    rows[(rows <= 0).all(axis=1) | (rows < 0).any(axis=1)] = np.nan
    stated = rows[trace.stated[pieces.event]]  # NONE (-1) takes the last row
    stated[~(pieces.is_kind(WorkKind.WORK) & (pieces.call == NONE))] = np.nan
    return stated[:, 0], stated[:, 1]
