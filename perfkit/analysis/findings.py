"""What to do next, as a table of rules; each looks at the variants and states evidence and gain."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from perfkit.analysis.finding_order import ordered
from perfkit.analysis.finding_rules import OF_WORK, RULES
from perfkit.analysis.finding_rules.context import Context
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import AT_LEAST
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.passes import Passes
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
    lossy = {variant.name for variant in variants if variant.lost is not None and variant.lost.matters}
    return ordered(
        (group, _bounded(finding) if rule in OF_WORK and finding.variant in lossy else finding)
        for group, rules in enumerate(RULES)
        for rule in rules
        for finding in rule(context)
    )


def _bounded(finding: Finding) -> Finding:
    """A gain in the time of ops some of whose kernels were lost."""
    return replace(finding, gain_bound=AT_LEAST)
