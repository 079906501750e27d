"""How the variants of a suite look in charts: their styles, whose memory is shown, what lies on a roofline."""

import msgspec

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace import RankTrace
from perfkit_reports import palette
from perfkit_reports.charts.plane import Plane, Series, applicable
from perfkit_reports.holders import Holder
from perfkit_reports.palette import Style
from perfkit_reports.subjects.suite.headline import fastest


def styles(analysis: Analysis) -> dict[str, Style]:
    """Each variant's style by name."""
    return palette.styles([(variant.name, variant.is_baseline) for variant in analysis.variants])


def holders(analysis: Analysis) -> list[Holder]:
    """The variants whose memory was recorded, those that ran out of it among them."""
    look = styles(analysis)
    return [
        Holder(variant.name, variant.memory, look[variant.name])
        for variant in analysis.variants
        if variant.memory is not None
    ]


def traces(analysis: Analysis) -> list[RankTrace]:
    """The traces of the variants whose steps were traced, called as these, that of the baseline first."""
    ordered = sorted(analysis.variants, key=lambda variant: not variant.is_baseline)
    return [
        msgspec.structs.replace(variant.traced_step, label=variant.name)
        for variant in ordered
        if variant.traced_step is not None
    ]


def plane(analysis: Analysis) -> Plane:
    """Every variant's points, with arrows from the baseline's step; ceilings for the threads that ran."""
    threads = analysis.environment.threads if analysis.environment else None
    look = styles(analysis)
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
                analysis.ceilings.device_name if analysis.ceilings else "",
                ceilings,
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
