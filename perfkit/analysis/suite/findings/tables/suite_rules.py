"""All rules about suites."""

from perfkit.analysis.suite.findings.tables import loop_activities, loops, measurement, outcomes

RULES = (*outcomes.RULES, *loops.DATA_WAIT_RULES, *loops.RULES, *loop_activities.RULES, *measurement.RULES)
