"""The rules behind the findings, in one table. A rule takes a `Context` and yields findings."""

from collections.abc import Callable, Iterator

from perfkit.analysis.finding_rules import loops, measurement, memory, outcomes, steps
from perfkit.analysis.finding_rules.context import Context
from perfkit.analysis.model.finding import Finding

Rule = Callable[[Context], Iterator[Finding]]

# What was measured on variants comes before what a step's make-up promises, and that before what limits the figures.
OUTCOMES: tuple[Rule, ...] = (
    outcomes.not_engaged,
    outcomes.undecided,
    outcomes.parity_broken,
    outcomes.out_of_memory,
    outcomes.pays,
    outcomes.does_not_pay,
    outcomes.trades_time_for_memory,
    outcomes.graph_breaks,
)
STEPS: tuple[Rule, ...] = (
    steps.low_precision_peak,
    steps.attention_not_fused,
    steps.optimizer_not_fused,
    steps.memory_bound_chain,
    steps.host_bound,
    steps.exposed_communication,
)
# Those whose gain is a part of the time of ops.
OF_WORK: tuple[Rule, ...] = (
    steps.low_precision_peak,
    steps.attention_not_fused,
    steps.optimizer_not_fused,
    steps.memory_bound_chain,
)
LOOPS: tuple[Rule, ...] = (
    loops.traced,
    loops.drifted,
    loops.slower_since,
    loops.outliers,
    loops.left_out,
)
MEMORY: tuple[Rule, ...] = (memory.memory,)
MEASUREMENT: tuple[Rule, ...] = (
    measurement.noisy,
    measurement.lost_kernels,
    measurement.low_confidence_ceilings,
    measurement.unmodelled,
)
RULES = (OUTCOMES, STEPS, LOOPS, MEMORY, MEASUREMENT)
