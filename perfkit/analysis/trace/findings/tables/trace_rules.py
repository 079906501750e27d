"""All rules about traces, ranks of a job, and a trace before and after a change."""

from perfkit.analysis.trace.findings.tables import (
    devices,
    host,
    limits,
    matmuls,
    memory_bound,
    multi_trace,
    needless_work,
    transfer,
)

RULES = (
    *matmuls.RULES,
    *memory_bound.RULES,
    *needless_work.RULES,
    *host.RULES,
    *devices.RULES,
    *transfer.RULES,
    *multi_trace.RULES,
    *limits.RULES,
)
