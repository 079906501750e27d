"""What to do next: rules, each with evidence in numbers, an action and what it could save, in one table.

A rule is a function from what it reads (a suite's variants, a trace, what its ranks wait for, a difference, an account
of memory) to what it found. The modules `of_suite`, `of_traces` and `of_memory` put the table to use.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from perfkit.analysis.findings.memory import allocator, categories, failure, tensors
from perfkit.analysis.findings.memory.view import AccountView
from perfkit.analysis.findings.suite import budgets, compiled, loops, measurement, outcomes, scaling, slow_dtypes
from perfkit.analysis.findings.suite.view import SuiteView
from perfkit.analysis.findings.trace import (
    data,
    efficiency,
    host,
    limits,
    memory_bound,
    products,
    queued,
    several,
    transfer,
)
from perfkit.analysis.findings.trace.view import ForeignView, Told, TraceView
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.fleet import Fleet


class About(IntEnum):
    """What a finding is about, in the order in which findings of one severity are told: what was measured on variants
    comes before what a step's make-up promises, that before what limits the figures, and memory last."""

    OUTCOME = 0
    STEP = 1
    LIMIT = 2
    MEMORY = 3


class Rule(NamedTuple):
    """`tells` says what it found in what it `reads`; `technique` is perfkit's that does what it advises, if any."""

    tells: Callable[[Any], Iterator[Finding | Told]]
    reads: type
    about: About
    technique: str = ""

    @property
    def key(self) -> str:
        """What it is called where its results are kept."""
        return f"{self.tells.__module__.rpartition('.')[2]}.{self.tells.__name__}"


RULES = (
    Rule(outcomes.not_engaged, SuiteView, About.OUTCOME),
    Rule(outcomes.undecided, SuiteView, About.OUTCOME),
    Rule(outcomes.loss_not_finite, SuiteView, About.OUTCOME),
    Rule(outcomes.parity_broken, SuiteView, About.OUTCOME),
    Rule(outcomes.out_of_memory, SuiteView, About.OUTCOME),
    Rule(outcomes.pays, SuiteView, About.OUTCOME),
    Rule(slow_dtypes.bf16_in_software, SuiteView, About.OUTCOME),
    Rule(outcomes.does_not_pay, SuiteView, About.OUTCOME),
    Rule(outcomes.trades_time_for_memory, SuiteView, About.OUTCOME),
    Rule(compiled.graph_breaks, SuiteView, About.OUTCOME),
    Rule(compiled.compile_time, SuiteView, About.OUTCOME),
    Rule(budgets.needs_more_with_less, SuiteView, About.OUTCOME),
    Rule(scaling.falls, SuiteView, About.OUTCOME),
    Rule(products.vector_units, TraceView, About.STEP, "amp"),
    Rule(products.odd_dims, TraceView, About.STEP),
    Rule(efficiency.gemms, TraceView, About.STEP),
    Rule(products.attention, TraceView, About.STEP, "flash"),
    Rule(efficiency.fused_attention, TraceView, About.STEP),
    Rule(products.convolution_layout, TraceView, About.STEP),
    Rule(products.batch_norm_layout, TraceView, About.STEP),
    Rule(products.convolution_algorithm, TraceView, About.STEP),
    Rule(memory_bound.optimizer_not_fused, TraceView, About.STEP),
    Rule(memory_bound.pointwise_chain, TraceView, About.STEP, "compile"),
    Rule(memory_bound.norm_in_parts, TraceView, About.STEP),
    Rule(memory_bound.softmax_in_parts, TraceView, About.STEP),
    Rule(memory_bound.conversions, TraceView, About.STEP),
    Rule(memory_bound.indexed_updates, TraceView, About.STEP),
    Rule(memory_bound.zeroing, TraceView, About.STEP),
    Rule(memory_bound.recomputation, TraceView, About.STEP),
    Rule(host.host_bound, TraceView, About.STEP, "compile"),
    Rule(host.long_gaps, TraceView, About.STEP),
    Rule(host.waits, TraceView, About.STEP),
    Rule(host.allocations, TraceView, About.STEP),
    Rule(data.starved, TraceView, About.STEP, "data"),
    Rule(host.short_kernels, TraceView, About.STEP),
    Rule(transfer.exposed_communication, TraceView, About.STEP),
    Rule(transfer.slow_link, TraceView, About.STEP),
    Rule(transfer.small_messages, TraceView, About.STEP),
    Rule(transfer.pageable_copies, TraceView, About.STEP),
    Rule(transfer.exposed_copies, TraceView, About.STEP),
    Rule(several.straggler, Fleet, About.STEP),
    Rule(several.waiting, Fleet, About.STEP),
    Rule(several.changed, TraceDifference, About.STEP),
    Rule(loops.starved_untraced, SuiteView, About.STEP),
    Rule(loops.drifted, SuiteView, About.STEP),
    Rule(loops.slower_since, SuiteView, About.STEP),
    Rule(loops.outliers, SuiteView, About.STEP),
    Rule(loops.left_out, SuiteView, About.STEP),
    Rule(limits.no_kernels, TraceView, About.LIMIT),
    Rule(limits.lost_kernels, TraceView, About.LIMIT),
    Rule(queued.starting, TraceView, About.STEP),
    Rule(queued.held_up, TraceView, About.STEP),
    Rule(limits.above_roof, TraceView, About.LIMIT),
    Rule(limits.refuted_ceilings, ForeignView, About.LIMIT),
    Rule(limits.unlike_steps, TraceView, About.LIMIT),
    Rule(limits.replayed, ForeignView, About.LIMIT),
    Rule(limits.unlinked, ForeignView, About.LIMIT),
    Rule(limits.unmodelled, ForeignView, About.LIMIT),
    Rule(limits.no_shapes, ForeignView, About.LIMIT),
    Rule(limits.unknown_device, ForeignView, About.LIMIT),
    Rule(limits.profiler_overhead, ForeignView, About.LIMIT),
    Rule(limits.no_steps, ForeignView, About.LIMIT),
    Rule(measurement.noisy, SuiteView, About.LIMIT),
    Rule(measurement.sessions_apart, SuiteView, About.LIMIT),
    Rule(measurement.refuted_ceilings, SuiteView, About.LIMIT),
    Rule(measurement.low_confidence_ceilings, SuiteView, About.LIMIT),
    Rule(measurement.unmodelled, SuiteView, About.LIMIT),
    Rule(failure.out_of_memory, AccountView, About.MEMORY),
    Rule(allocator.failed_for_want_of_one_piece, AccountView, About.MEMORY),
    Rule(failure.grows, AccountView, About.MEMORY),
    Rule(tensors.attention_scores, AccountView, About.MEMORY),
    Rule(tensors.logits, AccountView, About.MEMORY),
    Rule(categories.activations, AccountView, About.MEMORY),
    Rule(categories.recomputed, AccountView, About.MEMORY),
    Rule(categories.optimizer_state, AccountView, About.MEMORY),
    Rule(categories.gradients, AccountView, About.MEMORY),
    Rule(categories.parameters, AccountView, About.MEMORY),
    Rule(categories.autocast_copies, AccountView, About.MEMORY),
    Rule(categories.unsharded_parameters, AccountView, About.MEMORY),
    Rule(categories.communication_buffers, AccountView, About.MEMORY),
    Rule(categories.temporaries, AccountView, About.MEMORY),
    Rule(categories.retained, AccountView, About.MEMORY),
    Rule(allocator.fragmented, AccountView, About.MEMORY),
    Rule(allocator.kept, AccountView, About.MEMORY),
    Rule(categories.unexplained, AccountView, About.MEMORY),
)


def told(subject: object) -> Iterator[tuple[Rule, Told]]:
    """What every rule that reads such a subject says of it."""
    for rule in RULES:
        if isinstance(subject, rule.reads):
            for telling in rule.tells(subject):
                yield rule, telling if isinstance(telling, Told) else Told(telling)


def plainly(subject: object) -> Iterator[tuple[int, Finding]]:
    """The same as findings with the place of what they are about in the order of telling."""
    return ((rule.about, telling.finding) for rule, telling in told(subject))
