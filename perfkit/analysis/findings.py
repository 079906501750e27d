"""What to do next, as a table of rules; each looks at the variants and states evidence and gain."""

from collections.abc import Sequence

from perfkit.analysis.finding_rules import RULES
from perfkit.analysis.finding_rules.context import Context
from perfkit.analysis.result import Finding, Variant
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.record import Environment

_SEVERITIES = ("warning", "gain", "note")


def findings(
    variants: Sequence[Variant], environment: Environment | None, ceilings: DeviceCeilings | None
) -> tuple[Finding, ...]:
    """All rules' findings: warnings first, since they say what not to trust, then gains, the largest first."""
    context = Context(tuple(variants), environment, ceilings)
    found = [finding for rule in RULES for finding in rule(context)]
    return tuple(sorted(found, key=lambda each: (_SEVERITIES.index(each.severity), -(each.gain_s or 0.0))))
