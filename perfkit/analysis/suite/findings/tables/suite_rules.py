"""All rules about suites."""

from perfkit.analysis.suite.findings.tables import loop_activities, loop_peaks, loops, measurement, outcomes

RULES = (
    *outcomes.RULES,
    *loops.DATA_WAIT_RULES,
    *loops.RULES,
    *loop_activities.RULES,
    *loop_peaks.RULES,
    *measurement.RULES,
)
