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
    """All rules' findings: warnings first, since they say what not to trust, then gains, then notes.

    Among gains those that variants showed come before those that the baseline promises; each the largest first.
    """
    context = Context(tuple(variants), environment, ceilings)
    found = [(group, finding) for group, rules in enumerate(RULES) for rule in rules for finding in rule(context)]
    found.sort(key=lambda item: (_SEVERITIES.index(item[1].severity), item[0], -(item[1].gain_s or 0.0)))
    return tuple(finding for _, finding in found)
