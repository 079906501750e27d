"""What to do next, as a table of rules; each looks at the variants and states evidence and gain."""

from collections.abc import Mapping, Sequence

from perfkit.analysis.finding_order import ordered
from perfkit.analysis.finding_rules import RULES
from perfkit.analysis.finding_rules.context import Context
from perfkit.analysis.passes import Passes
from perfkit.analysis.result import Finding, Variant
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.record import Environment


def findings(
    variants: Sequence[Variant],
    environment: Environment | None,
    ceilings: DeviceCeilings | None,
    passes: Mapping[str, Passes] | None = None,
) -> tuple[Finding, ...]:
    """All rules' findings; among gains those that variants showed come before those that the baseline promises.

    `passes` are what the instrumented passes of variants showed, by name; only loops that perfkit was attached to are
    judged by their traces.
    """
    context = Context(tuple(variants), environment, ceilings, passes or {})
    return ordered((group, finding) for group, rules in enumerate(RULES) for rule in rules for finding in rule(context))
