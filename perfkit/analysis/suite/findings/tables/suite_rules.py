"""All rules about suites."""

from perfkit.analysis.suite.findings.tables import loops, measurement, outcomes

RULES = (*outcomes.RULES, *loops.DATA_WAIT_RULES, *loops.RULES, *measurement.RULES)
