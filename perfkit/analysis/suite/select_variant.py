"""Narrows the analysis of a suite to one variant."""

from collections.abc import Mapping

from msgspec.structs import replace

from perfkit.analysis.model.suite import Analysis
from perfkit.core.errors import make_unknown_name_error


def select_variant(analysis: Analysis, name: str, baselines: Mapping[str, str]) -> Analysis:
    """The analysis with this variant, its baseline, and the findings about it and about the suite.

    What compares all variants (sweeps, scaling) is left out. `baselines` maps variants to what they are compared with.
    """
    if name not in (known := [variant.name for variant in analysis.variants]):
        raise make_unknown_name_error("variant", name, known)
    kept = {name, baselines.get(name, name)}
    return replace(
        analysis,
        title=f"{analysis.title}, {name}",
        variants=tuple(variant for variant in analysis.variants if variant.name in kept),
        pareto=tuple(front for front in analysis.pareto if front in kept),
        sweeps=(),
        scaling=None,
        untested=None,
        searches=tuple(search for search in analysis.searches if search.selected_variant == name),
        recomputations=tuple(search for search in analysis.recomputations if search.selected_variant == name),
        findings=tuple(finding for finding in analysis.findings if finding.variant in ("", name)),
    )
