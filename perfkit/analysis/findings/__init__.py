"""Rules that find what to do next, in one table: each with evidence in numbers, an action and what it could save.

A rule is a function from what it reads (a suite's variants, a trace, what its ranks wait for, a difference, an account
of memory) to what it found. The modules `suite_findings`, `trace_findings` and `memory_findings` put the table to use.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from perfkit.analysis.findings.memory import allocator, categories, failure, tensors
from perfkit.analysis.findings.memory.account_view import AccountView
from perfkit.analysis.findings.suite import budgets, compilation, loops, measurement, outcomes, scaling, slow_dtypes
from perfkit.analysis.findings.suite.suite_view import SuiteView
from perfkit.analysis.findings.trace import (
    data,
    efficiency,
    host,
    launch_latency,
    limits,
    memory_bound,
    multi_trace,
    products,
    transfer,
)
from perfkit.analysis.findings.trace.trace_view import ForeignView, RuleResult, TraceView
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

    tells: Callable[[Any], Iterator[Finding | RuleResult]]
    reads: type
    about: About
    technique: str = ""

    @property
    def key(self) -> str:
        """What it is called where its results are kept."""
        return f"{self.tells.__module__.rpartition('.')[2]}.{self.tells.__name__}"


RULES = (
    Rule(outcomes.find_failed_claims, SuiteView, About.OUTCOME),
    Rule(outcomes.find_undecided_claims, SuiteView, About.OUTCOME),
    Rule(outcomes.find_nonfinite_loss, SuiteView, About.OUTCOME),
    Rule(outcomes.find_parity_break, SuiteView, About.OUTCOME),
    Rule(outcomes.find_out_of_memory, SuiteView, About.OUTCOME),
    Rule(outcomes.find_speedup, SuiteView, About.OUTCOME),
    Rule(slow_dtypes.find_software_bf16, SuiteView, About.OUTCOME),
    Rule(outcomes.find_no_benefit, SuiteView, About.OUTCOME),
    Rule(outcomes.find_memory_saving, SuiteView, About.OUTCOME),
    Rule(compilation.find_graph_breaks, SuiteView, About.OUTCOME),
    Rule(compilation.find_compile_time, SuiteView, About.OUTCOME),
    Rule(budgets.find_budget_needing_more, SuiteView, About.OUTCOME),
    Rule(scaling.find_efficiency_loss, SuiteView, About.OUTCOME),
    Rule(products.find_fp32_products, TraceView, About.STEP, "amp"),
    Rule(products.find_unaligned_dims, TraceView, About.STEP),
    Rule(efficiency.find_slow_gemms, TraceView, About.STEP),
    Rule(products.find_unfused_attention, TraceView, About.STEP, "flash"),
    Rule(efficiency.find_slow_attention, TraceView, About.STEP),
    Rule(products.find_convolution_transposes, TraceView, About.STEP),
    Rule(products.find_batch_norm_layout, TraceView, About.STEP),
    Rule(products.find_slow_convolutions, TraceView, About.STEP),
    Rule(memory_bound.find_unfused_optimizer, TraceView, About.STEP),
    Rule(memory_bound.find_unfused_elementwise, TraceView, About.STEP, "compile"),
    Rule(memory_bound.find_norm_in_parts, TraceView, About.STEP),
    Rule(memory_bound.find_softmax_in_parts, TraceView, About.STEP),
    Rule(memory_bound.find_dtype_conversions, TraceView, About.STEP),
    Rule(memory_bound.find_slow_indexed_updates, TraceView, About.STEP),
    Rule(memory_bound.find_zero_fills, TraceView, About.STEP),
    Rule(memory_bound.find_recomputation, TraceView, About.STEP),
    Rule(host.find_host_bound, TraceView, About.STEP, "compile"),
    Rule(host.find_long_gaps, TraceView, About.STEP),
    Rule(host.find_synchronization, TraceView, About.STEP),
    Rule(host.find_device_allocation, TraceView, About.STEP),
    Rule(data.find_data_wait, TraceView, About.STEP, "data"),
    Rule(host.find_short_kernels, TraceView, About.STEP),
    Rule(transfer.find_exposed_communication, TraceView, About.STEP),
    Rule(transfer.find_slow_link, TraceView, About.STEP),
    Rule(transfer.find_small_messages, TraceView, About.STEP),
    Rule(transfer.find_pageable_copies, TraceView, About.STEP),
    Rule(transfer.find_exposed_copies, TraceView, About.STEP),
    Rule(multi_trace.find_straggler, Fleet, About.STEP),
    Rule(multi_trace.find_rank_waiting, Fleet, About.STEP),
    Rule(multi_trace.find_step_change, TraceDifference, About.STEP),
    Rule(loops.find_untraced_data_wait, SuiteView, About.STEP),
    Rule(loops.find_drift, SuiteView, About.STEP),
    Rule(loops.find_slower_capture, SuiteView, About.STEP),
    Rule(loops.find_outlier_steps, SuiteView, About.STEP),
    Rule(loops.find_excluded_steps, SuiteView, About.STEP),
    Rule(limits.find_missing_kernels, TraceView, About.LIMIT),
    Rule(limits.find_lost_kernels, TraceView, About.LIMIT),
    Rule(launch_latency.find_launch_latency, TraceView, About.STEP),
    Rule(launch_latency.find_blocked_launches, TraceView, About.STEP),
    Rule(limits.find_work_above_roof, TraceView, About.LIMIT),
    Rule(limits.find_exceeded_ceilings, ForeignView, About.LIMIT),
    Rule(limits.find_outlier_steps, TraceView, About.LIMIT),
    Rule(limits.find_unknown_graphs, ForeignView, About.LIMIT),
    Rule(limits.find_unlinked_kernels, ForeignView, About.LIMIT),
    Rule(limits.find_unmodeled_kernels, ForeignView, About.LIMIT),
    Rule(limits.find_missing_shapes, ForeignView, About.LIMIT),
    Rule(limits.find_missing_ceilings, ForeignView, About.LIMIT),
    Rule(limits.find_profiler_overhead, ForeignView, About.LIMIT),
    Rule(limits.find_missing_steps, ForeignView, About.LIMIT),
    Rule(measurement.find_inconclusive_comparison, SuiteView, About.LIMIT),
    Rule(measurement.find_session_shift, SuiteView, About.LIMIT),
    Rule(measurement.find_exceeded_ceilings, SuiteView, About.LIMIT),
    Rule(measurement.find_uncertain_ceilings, SuiteView, About.LIMIT),
    Rule(measurement.find_unmodeled_ops, SuiteView, About.LIMIT),
    Rule(failure.find_failed_request, AccountView, About.MEMORY),
    Rule(allocator.find_request_without_one_piece, AccountView, About.MEMORY),
    Rule(failure.find_growth, AccountView, About.MEMORY),
    Rule(tensors.find_attention_scores, AccountView, About.MEMORY),
    Rule(tensors.find_logits, AccountView, About.MEMORY),
    Rule(categories.find_activations, AccountView, About.MEMORY),
    Rule(categories.find_recomputed_activations, AccountView, About.MEMORY),
    Rule(categories.find_optimizer_state, AccountView, About.MEMORY),
    Rule(categories.find_gradients, AccountView, About.MEMORY),
    Rule(categories.find_parameters, AccountView, About.MEMORY),
    Rule(categories.find_autocast_copies, AccountView, About.MEMORY),
    Rule(categories.find_unsharded_parameters, AccountView, About.MEMORY),
    Rule(categories.find_communication_buffers, AccountView, About.MEMORY),
    Rule(categories.find_temporaries, AccountView, About.MEMORY),
    Rule(categories.find_retained_outputs, AccountView, About.MEMORY),
    Rule(allocator.find_fragmentation, AccountView, About.MEMORY),
    Rule(allocator.find_unused_reserve, AccountView, About.MEMORY),
    Rule(categories.find_uncategorized_memory, AccountView, About.MEMORY),
)


def run_rules(subject: object) -> Iterator[tuple[Rule, RuleResult]]:
    """What every rule that reads such a subject says of it."""
    for rule in RULES:
        if isinstance(subject, rule.reads):
            for result in rule.tells(subject):
                yield rule, result if isinstance(result, RuleResult) else RuleResult(result)


def collect_findings(subject: object) -> Iterator[tuple[int, Finding]]:
    """The same as findings with the place of what they are about in the order of result."""
    return ((rule.about, result.finding) for rule, result in run_rules(subject))
