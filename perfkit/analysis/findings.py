"""What to do next, as a table of rules; each looks at the variants and states evidence and gain."""

from collections.abc import Sequence

from perfkit.analysis.finding_order import ordered
from perfkit.analysis.finding_rules import RULES
from perfkit.analysis.finding_rules.context import Context
from perfkit.analysis.result import Finding, Variant
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.record import Environment


def findings(
    variants: Sequence[Variant], environment: Environment | None, ceilings: DeviceCeilings | None
) -> tuple[Finding, ...]:
    """All rules' findings; among gains those that variants showed come before those that the baseline promises."""
    context = Context(tuple(variants), environment, ceilings)
    return ordered((group, finding) for group, rules in enumerate(RULES) for rule in rules for finding in rule(context))
