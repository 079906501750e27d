"""The ops of a trace step by step, for comparing two traces of few steps."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from statistics import median

import numpy as np
from msgspec.structs import replace

from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.trace.work.roofline_rows import build_op_rows
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.trace.model import NONE
from perfkit.trace.ops.kernels import is_compiled_graph
from perfkit.trace.ops.ops import Ops

# The name of a torch.compile graph: its own is a hash of its code, which differs between versions.
COMPILED = "compiled graph"

OpKey = tuple[str, str, str, str]


@dataclass(frozen=True)
class OpsByStep:
    """The ops within steps: `ops` with the median of their seconds over the steps, so that one step in which the
    process was held up changes nothing; `steps_s` the seconds of an op (`make_op_key`) in each step; `implementations`
    the calls per step of ops within others, by the names of both."""

    ops: tuple[OpRow, ...]
    steps_s: Mapping[OpKey, tuple[float, ...]]
    implementations: Mapping[tuple[str, str], float] = field(default_factory=dict)


def make_op_key(row: OpRow) -> OpKey:
    """The key by which an op is the same in another step or trace."""
    return row.name, row.phase, row.module, row.shapes


def split_ops_by_step(engine: WorkAnalysis) -> OpsByStep:
    """Rows of the ops within steps, and their seconds in each step."""
    work, groups = engine.pieces, engine.by_op.groups
    inside = work.step != NONE
    seconds = np.zeros((len(groups), max(1, len(engine.windows))))
    np.add.at(seconds, (groups.of[inside], work.step[inside]), work.busy_ns[inside] / 1e9)
    rows: list[OpRow] = []
    steps_s: dict[OpKey, tuple[float, ...]] = {}
    for row, series in zip(
        build_op_rows(engine.by_op, np.arange(len(groups)), engine.step_s, of_kernels=False),
        seconds.tolist(),
        strict=True,
    ):
        if row.phase == OUTSIDE:
            continue
        named = replace(row, name=COMPILED) if is_compiled_graph(row.name) else row
        named = replace(named, seconds=median(series))
        rows.append(named)
        have = steps_s.get(make_op_key(named))
        steps_s[make_op_key(named)] = tuple(series if have is None else map(fsum, zip(have, series, strict=True)))
    return OpsByStep(tuple(rows), steps_s, count_implementations(work.ops))


def count_implementations(ops: Ops) -> dict[tuple[str, str], float]:
    """The ops that a costed op calls, per step: `(aten::convolution, aten::mkldnn_convolution)`."""
    rows = np.flatnonzero((ops.owner != NONE) & (ops.owner != np.arange(len(ops))) & (ops.step != NONE))
    names = ops.trace.name[ops.event]
    calls = Counter(zip(names[ops.owner[rows]].tolist(), names[rows].tolist(), strict=True))
    steps = max(1, len(np.unique(ops.step[rows])))
    table = ops.trace.names
    return {(table[outer], table[inner]): count / steps for (outer, inner), count in calls.items()}
