"""Chart styles of a suite's variants, and the variants that memory charts and rooflines show."""

from collections.abc import Sequence

import msgspec

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.op_tables import LONGEST_ROWS
from perfkit_reports import palette
from perfkit_reports.charts.roofline_plane import RooflinePlane, RooflineSeries, select_ceilings
from perfkit_reports.holders import Holder
from perfkit_reports.palette import Style
from perfkit_reports.subjects.suite.suite_headline import find_fastest

# Maximum rows over all traces' tables, and minimum rows of each.
_ALL_ROWS = 100
_LEAST_ROWS = 12


def assign_variant_styles(analysis: Analysis) -> dict[str, Style]:
    """Each variant's style by name."""
    return palette.assign_styles([(variant.name, variant.is_baseline) for variant in analysis.variants])


def list_holders(analysis: Analysis) -> list[Holder]:
    """Variants with recorded memory, including those that ran out of memory."""
    look = assign_variant_styles(analysis)
    return [
        Holder(variant.name, variant.memory, look[variant.name])
        for variant in analysis.variants
        if variant.memory is not None
    ]


def list_traces(analysis: Analysis) -> list[RankTrace]:
    """Traces, named after their variants, the baseline first."""
    ordered = sorted(analysis.variants, key=lambda variant: not variant.is_baseline)
    return [
        msgspec.structs.replace(variant.traced_step, label=variant.name)
        for variant in ordered
        if variant.traced_step is not None
    ]


def limit_rows(traced: Sequence[RankTrace]) -> int:
    """Maximum rows of a trace's tables: fewer for many traces, to keep the page small."""
    return max(_LEAST_ROWS, min(LONGEST_ROWS, _ALL_ROWS // max(1, len(traced))))


def build_plane(analysis: Analysis) -> RooflinePlane:
    """Points of all variants, with arrows from the baseline's step, and ceilings for their threads."""
    threads = analysis.environment.threads if analysis.environment else None
    look = assign_variant_styles(analysis)
    shown = _list_shown(analysis)
    baseline = next((variant.name for variant in analysis.variants if variant.is_baseline), "")
    ceilings = select_ceilings(analysis.ceilings, threads)
    return RooflinePlane(
        tuple(
            RooflineSeries(
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


def _list_shown(analysis: Analysis) -> tuple[str, ...]:
    """Layers shown at first: the baseline and the winner, else the first two."""
    have = [variant for variant in analysis.variants if variant.points]
    best = find_fastest(analysis)
    if best is None or best not in have:
        return tuple(variant.name for variant in have[:2])
    return tuple(variant.name for variant in have if variant.is_baseline or variant is best)
