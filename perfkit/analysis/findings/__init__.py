"""Rules that report findings, in one table: each with evidence in numbers, an action and its saving.

A rule is a function from its subject (a suite's variants, a trace, a job's ranks, a difference, a memory account) to
findings; `tables` lists the rules by subject, with the ids that each may report. The modules
`suite_findings`, `trace_findings` and `memory_findings` put the table to use.
"""

from collections.abc import Iterator

from perfkit.analysis.findings.rule import About, Rule, Subject
from perfkit.analysis.findings.tables import (
    host,
    limits,
    loops,
    matmuls,
    memory,
    memory_bound,
    multi_trace,
    outcomes,
    processes,
    transfer,
)
from perfkit.analysis.findings.trace.trace_view import RuleResult
from perfkit.analysis.model.finding import Finding

__all__ = ["RULES", "SUBJECTS", "About", "Rule", "Subject", "collect_findings", "run_rules"]

SUBJECTS = (
    Subject("Variants", "Of a suite: the outcome of its variants.", outcomes.RULES),
    Subject("GEMMs, attention, convolutions", "Of a trace.", matmuls.RULES),
    Subject("Memory-bound work", "Of a trace.", memory_bound.RULES),
    Subject(
        "CPU and launches",
        "Of a trace, and of a loop or a bench with a DataLoader. Each moment of idle time has [one "
        "cause](replay.md#why-the-device-was-idle). If the trace has Python stacks, findings name the functions with "
        "most of it. No finding counts time in which the device may have run unrecorded work ([not "
        "recorded](analyze.md#what-the-report-says)). Advice fits the device: no CUDA graphs and no `torch.cuda` on "
        "MTIA, XPU or a CPU.",
        host.RULES,
    ),
    Subject("Communication and copies", "Of a trace.", transfer.RULES),
    Subject("Several traces", "Of the ranks of a job, or of a trace before and after a change.", multi_trace.RULES),
    Subject("Attached loops", "In addition to the rules on their traces.", loops.RULES),
    Subject("Limits of the figures", "Of a trace, or of the measurement of a suite.", limits.RULES),
    Subject(
        "Memory",
        "Of an account of memory (`perfkit memory`, `perfkit bench`). Gains are upper bounds in bytes. Actions name "
        "the technique of perfkit, if any, and the API of torch or another library.",
        memory.RULES,
    ),
    Subject("Mismatched collectives", "Of dumps of torch's flight recorder.", others=processes.COLLECTIVES),
    Subject("Main thread", "Of the sampled stacks of a process.", others=processes.MAIN_THREAD),
)

RULES = tuple(rule for subject in SUBJECTS for rule in subject.rules)


def run_rules(subject: object) -> Iterator[tuple[Rule, RuleResult]]:
    """The results of every rule that reads such a subject."""
    for rule in RULES:
        if isinstance(subject, rule.reads):
            for reported in rule.check(subject):
                result = reported if isinstance(reported, RuleResult) else RuleResult(reported)
                declared = (result.finding.id, result.finding.severity)
                assert declared in {kind[:2] for kind in rule.kinds}, f"{rule.check.__name__} declares no {declared}"
                yield rule, result


def collect_findings(subject: object) -> Iterator[tuple[int, Finding]]:
    """The findings, each with its place in the order of reports."""
    return ((rule.about, result.finding) for rule, result in run_rules(subject))
