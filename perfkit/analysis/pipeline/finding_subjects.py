"""All kinds of findings by subject, in the order of `docs/findings.md`."""

from perfkit.analysis.findings import processes
from perfkit.analysis.findings.rule import Subject
from perfkit.analysis.memory.findings import memory_rules
from perfkit.analysis.suite.findings.tables import loop_activities, loops, measurement, outcomes
from perfkit.analysis.trace.findings.tables import (
    host,
    limits,
    matmuls,
    memory_bound,
    multi_trace,
    needless_work,
    transfer,
)

SUBJECTS = (
    Subject("Variants", "Of a suite: the outcome of its variants.", outcomes.RULES),
    Subject("GEMMs, attention, convolutions", "Of a trace.", matmuls.RULES),
    Subject("Memory-bound work", "Of a trace.", memory_bound.RULES),
    Subject("Needless work", "Of a trace.", needless_work.RULES),
    Subject(
        "CPU and launches",
        "Of a trace, and of a loop or a bench with a DataLoader. Each moment of idle time has [one "
        "cause](replay.md#why-the-device-was-idle). If the trace has Python stacks, findings name the functions with "
        "most of it. No finding counts time in which the device may have run unrecorded work ([not "
        "recorded](analyze.md#what-the-report-says)). Advice fits the device: no CUDA graphs and no `torch.cuda` on "
        "MTIA, XPU or a CPU.",
        (*host.RULES, *loops.DATA_WAIT_RULES),
    ),
    Subject("Communication and copies", "Of a trace.", transfer.RULES),
    Subject("Several traces", "Of the ranks of a job, or of a trace before and after a change.", multi_trace.RULES),
    Subject("Attached loops", "In addition to the rules on their traces.", (*loops.RULES, *loop_activities.RULES)),
    Subject(
        "Limits of the figures", "Of a trace, or of the measurement of a suite.", (*limits.RULES, *measurement.RULES)
    ),
    Subject(
        "Memory",
        "Of an account of memory (`perfkit memory`, `perfkit bench`). Gains are upper bounds in bytes. Actions name "
        "the technique of perfkit, if any, and the API of torch or another library.",
        memory_rules.RULES,
    ),
    Subject("Mismatched collectives", "Of dumps of torch's flight recorder.", others=processes.COLLECTIVES),
    Subject("Main thread", "Of the sampled stacks of a process.", others=processes.MAIN_THREAD),
)
