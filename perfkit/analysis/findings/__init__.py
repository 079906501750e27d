"""Rules that find what to do next, in one table: each with evidence in numbers, an action and what it could save.

A rule is a function from what it reads (a suite's variants, a trace, what its ranks wait for, a difference, an account
of memory) to what it found; `tables` has them by subject, with the ids of what each may report. The modules
`suite_findings`, `trace_findings` and `memory_findings` put the table to use.
"""

from collections.abc import Iterator

from perfkit.analysis.findings.rule import About, Rule, Subject
from perfkit.analysis.findings.tables import (
    host,
    limits,
    loops,
    memory,
    memory_bound,
    multi_trace,
    outcomes,
    processes,
    products,
    transfer,
)
from perfkit.analysis.findings.trace.trace_view import RuleResult
from perfkit.analysis.model.finding import Finding

__all__ = ["RULES", "SUBJECTS", "About", "Rule", "Subject", "collect_findings", "run_rules"]

SUBJECTS = (
    Subject("Variants", "Of a suite: what its variants showed.", outcomes.RULES),
    Subject("GEMMs, attention, convolutions", "Of a trace.", products.RULES),
    Subject("Memory-bound work", "Of a trace.", memory_bound.RULES),
    Subject(
        "Host",
        "Of a trace, and of a loop or a bench with a DataLoader. Each moment of a device's idle time has [one cause]"
        "(replay.md#why-the-device-was-idle). Where the trace has Python's stacks, the functions in which most of it "
        "lies are named. No finding rests on time in which the device may have run what was not recorded ([not "
        "recorded]"
        "(analyze.md#what-the-report-says)). Advice names only what the device has: no CUDA graphs and no `torch.cuda` "
        "on MTIA, XPU or a CPU.",
        host.RULES,
    ),
    Subject("Communication and copies", "Of a trace.", transfer.RULES),
    Subject("Several traces", "Of the ranks of a job, and of a trace before and after a change.", multi_trace.RULES),
    Subject("Loops that perfkit was attached to", "Beside the rules on their traces.", loops.RULES),
    Subject("What limits the figures", "Of a trace, and of the measurement of a suite.", limits.RULES),
    Subject(
        "Memory",
        "Of an account of memory (`perfkit memory`, `perfkit bench`). Gains are in bytes and the most that can be "
        "saved. "
        "Each names perfkit's technique, where it has one, and the API of torch or another library.",
        memory.RULES,
    ),
    Subject("Collectives that do not meet", "Of dumps of torch's flight recorder.", others=processes.COLLECTIVES),
    Subject("The main thread", "Of the sampled stacks of a process.", others=processes.MAIN_THREAD),
)

RULES = tuple(rule for subject in SUBJECTS for rule in subject.rules)


def run_rules(subject: object) -> Iterator[tuple[Rule, RuleResult]]:
    """What every rule that reads such a subject reports of it."""
    for rule in RULES:
        if isinstance(subject, rule.reads):
            for reported in rule.check(subject):
                result = reported if isinstance(reported, RuleResult) else RuleResult(reported)
                declared = (result.finding.id, result.finding.severity)
                assert declared in {kind[:2] for kind in rule.kinds}, f"{rule.check.__name__} declares no {declared}"
                yield rule, result


def collect_findings(subject: object) -> Iterator[tuple[int, Finding]]:
    """The same as findings with the place of what they are about in the order of reports."""
    return ((rule.about, result.finding) for rule, result in run_rules(subject))
