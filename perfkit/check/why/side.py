"""Reads the instrumented run of one side: the ops of a step, and allocations by origin."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from msgspec.structs import replace

from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.trace.work.ops_by_step import OpKey
from perfkit.core.allocations import NONE, Allocations
from perfkit.core.record.trace_marks import PHASES
from perfkit.store.memory_file import read_allocations
from perfkit.store.suite_reader import StoredRank

OpPlace = tuple[str, str, str]


@dataclass(frozen=True)
class TracedSteps:
    """A trace of a few steps.

    `trace.ops` and `trace.step_s` are medians over its steps, so one interrupted step has no effect; `steps_s` are the
    seconds of an op (`op_key`) in each step; `implementations` are the calls per step of ops within others."""

    trace: RankTrace
    steps_s: Mapping[OpKey, tuple[float, ...]]
    implementations: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class SideAnalysis:
    """The analysis of a variant of one side.

    `traced` is its first rank with a trace, or None. `allocations` counts allocations per step in the memory recording,
    by op, phase and module.
    """

    variant: Variant
    runs: VariantRuns
    traced: TracedSteps | None
    allocations: Mapping[OpPlace, float]


def observe_variant(variant: Variant, runs: VariantRuns, passes: PassResults) -> SideAnalysis:
    """Read a side's runs of a variant, from its analysis (`perfkit.analysis.pipeline.suite_analysis.inspect_suite`)."""
    ranks = () if runs.main is None else runs.main.ranks
    with_memory = next((rank for rank in ranks if rank.memory is not None), None)
    return SideAnalysis(
        variant=variant,
        runs=runs,
        traced=_build_traced_steps(passes),
        allocations={} if with_memory is None else _count_allocations(with_memory),
    )


def _build_traced_steps(passes: PassResults) -> TracedSteps | None:
    trace, by_step = passes.trace, passes.by_step
    if trace is None or by_step is None:
        return None
    step_s = median(step.seconds for step in trace.steps) if trace.steps else trace.step_s
    return TracedSteps(replace(trace, ops=by_step.ops, step_s=step_s), by_step.steps_s, by_step.implementations)


def _count_allocations(rank: StoredRank) -> dict[OpPlace, float]:
    assert rank.memory is not None
    events = read_allocations(rank.memory)
    counts = np.flatnonzero((events.size > 0) & (events.step != NONE) & (events.op != 0))
    steps = max(1, len(np.unique(events.step[events.step != NONE])))
    count = Counter(
        zip(events.op[counts].tolist(), events.phase[counts].tolist(), events.module[counts].tolist(), strict=True)
    )
    return {_name_place(events, *key): calls / steps for key, calls in count.items()}


def _name_place(events: Allocations, op: int, phase: int, module: int) -> OpPlace:
    return events.names[op], "" if phase == NONE else PHASES[phase], events.names[module]
