"""One side of a check as its instrumented run left it: the ops of a step, and what was allocated where."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from statistics import median

import numpy as np
from msgspec.structs import replace

from perfkit.allocations import NONE, Allocations
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.suite import OUTSIDE, Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.suite.analyse import analyse_variant
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.trace.rank_trace import analyse_ops
from perfkit.analysis.trace.roofs import Roofs
from perfkit.analysis.trace.work.engine import Engine, analyse_work
from perfkit.analysis.trace.work.placed import rows
from perfkit.record import PHASES
from perfkit.store.memory_file import read_allocations
from perfkit.store.read import StoredRank, StoredSuite
from perfkit.trace.kernels import is_compiled_graph
from perfkit.trace.ops import read_ops
from perfkit.trace.read import read_trace

# What a graph of torch.compile is called: its own name is a hash of its code, which no other version of it shares.
COMPILED = "compiled graph"

OpKey = tuple[str, str, str, str]
Place = tuple[str, str, str]


@dataclass(frozen=True)
class Traced:
    """A trace of a few steps. `trace.ops` and `trace.step_s` are medians over its steps, so that one step in which
    the process was held up changes nothing; `steps_s` are the seconds of an op (`op_key`) in each step."""

    trace: RankTrace
    steps_s: Mapping[OpKey, tuple[float, ...]]


@dataclass(frozen=True)
class Observed:
    """A variant of one side.

    `traced` is its first rank with a trace, None where there is none. `allocations` counts, per step, what the memory
    pass saw an op allocate: by op, phase and module.
    """

    variant: Variant
    runs: VariantRuns
    traced: Traced | None
    allocations: Mapping[Place, float]


def observe(stored: StoredSuite, name: str) -> Observed:
    """Read what a side's runs of a variant left; what is not there is None or empty."""
    runs = VariantRuns(name, tuple(run for run in stored.runs if run.variant == name))
    ranks = () if runs.main is None else runs.main.ranks
    with_trace = next((rank for rank in ranks if rank.trace is not None), None)
    with_memory = next((rank for rank in ranks if rank.memory is not None), None)
    return Observed(
        variant=analyse_variant(stored, name),
        runs=runs,
        traced=None if with_trace is None else _traced(with_trace),
        allocations={} if with_memory is None else _allocated(with_memory),
    )


def op_key(row: OpRow) -> OpKey:
    return row.name, row.phase, row.module, row.shapes


def _traced(rank: StoredRank) -> Traced:
    assert rank.trace is not None
    ops = read_ops(read_trace(rank.trace))
    trace = analyse_ops(ops, None)
    ops_of_step, steps_s = _per_step(analyse_work(ops, Roofs(None, trace.device)))
    step_s = median(step.seconds for step in trace.steps) if trace.steps else trace.step_s
    return Traced(replace(trace, ops=ops_of_step, step_s=step_s), steps_s)


def _per_step(found: Engine) -> tuple[tuple[OpRow, ...], dict[OpKey, tuple[float, ...]]]:
    """Rows of the ops within steps, and their seconds in each step."""
    work, groups = found.pieces, found.by_op.groups
    inside = work.step != NONE
    seconds = np.zeros((len(groups), max(1, len(found.windows))))
    np.add.at(seconds, (groups.of[inside], work.step[inside]), work.busy_ns[inside] / 1e9)
    made: list[OpRow] = []
    steps_s: dict[OpKey, tuple[float, ...]] = {}
    for row, series in zip(
        rows(found.by_op, np.arange(len(groups)), found.step_s, of_kernels=False), seconds.tolist(), strict=True
    ):
        if row.phase == OUTSIDE:
            continue
        named = replace(row, name=COMPILED) if is_compiled_graph(row.name) else row
        named = replace(named, seconds=median(series))
        made.append(named)
        have = steps_s.get(op_key(named))
        steps_s[op_key(named)] = tuple(series if have is None else map(fsum, zip(have, series, strict=True)))
    return tuple(made), steps_s


def _allocated(rank: StoredRank) -> dict[Place, float]:
    assert rank.memory is not None
    events = read_allocations(rank.memory)
    made = np.flatnonzero((events.size > 0) & (events.step != NONE) & (events.op != 0))
    steps = max(1, len(np.unique(events.step[events.step != NONE])))
    count = Counter(
        zip(events.op[made].tolist(), events.phase[made].tolist(), events.module[made].tolist(), strict=True)
    )
    return {_place(events, *key): calls / steps for key, calls in count.items()}


def _place(events: Allocations, op: int, phase: int, module: int) -> Place:
    return events.names[op], "" if phase == NONE else PHASES[phase], events.names[module]
