"""A bench's variants as what the figures draw: series on a roofline, bars of time."""

from perfkit.analysis.model.suite import Analysis
from perfkit_reports.document.blocks import Bar
from perfkit_reports.headline import fastest
from perfkit_reports.palette import Style, styles
from perfkit_reports.plane import Plane, Series, applicable


def variant_styles(analysis: Analysis) -> dict[str, Style]:
    """Each variant's style by name."""
    return styles([(variant.name, variant.is_baseline) for variant in analysis.variants])


def plane(analysis: Analysis) -> Plane:
    """Every variant's points, with arrows from the baseline's step; ceilings for the threads that ran."""
    threads = analysis.environment.threads if analysis.environment else None
    look = variant_styles(analysis)
    shown = _shown(analysis)
    baseline = next((variant.name for variant in analysis.variants if variant.is_baseline), "")
    ceilings = applicable(analysis.ceilings, threads)
    return Plane(
        tuple(
            Series(
                variant.name,
                variant.points,
                look[variant.name],
                variant.name in shown,
                "" if variant.is_baseline else variant.difference.baseline if variant.difference else baseline,
                ceilings=ceilings,
            )
            for variant in analysis.variants
        )
    )


def _shown(analysis: Analysis) -> tuple[str, ...]:
    """The layers that are on at first: the baseline and the winner, or where there is none the first two."""
    have = [variant for variant in analysis.variants if variant.points]
    best = fastest(analysis)
    if best is None or best not in have:
        return tuple(variant.name for variant in have[:2])
    return tuple(variant.name for variant in have if variant.is_baseline or variant is best)


def time_bars(analysis: Analysis) -> list[Bar]:
    """Where the step of each traced variant goes."""
    return [Bar(variant.name, variant.time_split) for variant in analysis.variants if variant.time_split]
