"""What fills the memory of variants, by the rules about accounts of memory."""

from collections.abc import Iterator

from perfkit.analysis.finding_rules.context import Context
from perfkit.analysis.memory.findings import memory_findings
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import Variant
from perfkit.record import Status

# Gains told of the baseline: what others would be is measured by trying techniques, not by reading on.
_MOST_GAINS = 3


def memory(context: Context) -> Iterator[Finding]:
    """Of the baseline warnings, the largest gains and notes; of other variants what went wrong in them alone."""
    growing = any(variant.memory is not None and variant.memory.growth for variant in context.advised)
    tried = _tried(context)
    for variant in context.variants:
        if variant.memory is None:
            continue
        found = memory_findings(
            variant.memory,
            variant=variant.name,
            techniques=variant.techniques,
            own_loop=variant.loop is not None,
            tried=tried,
        )
        if variant in context.advised:
            gains = [finding for finding in found if finding.severity == "gain"]
            yield from (finding for finding in found if finding not in gains[_MOST_GAINS:])
        elif variant.status == Status.OUT_OF_MEMORY or not growing:
            yield from (finding for finding in found if finding.severity == "warning")


def _tried(context: Context) -> dict[str, str]:
    """What came of each technique, alone before in combination."""
    others = [variant for variant in context.variants if not variant.is_baseline]
    by_size = sorted(others, key=lambda variant: -len(variant.techniques))
    return {technique: _outcome(variant) for variant in by_size for technique in variant.techniques}


def _outcome(variant: Variant) -> str:
    if variant.status != Status.OK:
        return f"tried as {variant.name}: {variant.status}"
    if variant.engaged is not True or variant.memory_ratio is None:
        return f"tried as {variant.name}, without a result that can be credited to it"
    return f"tried as {variant.name}: {variant.memory_ratio:.2f} times the peak memory"
