"""A bench's report.html: text from the templates, figures drawn by the plotly.js inside it."""

import msgspec

from perfkit.analysis.model.estimate import Estimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.record import Status
from perfkit_reports import headline, memory_section, ops, watched
from perfkit_reports.charts.roofline import kinds, left_out
from perfkit_reports.columns import telling
from perfkit_reports.figures import all_figures
from perfkit_reports.holders import of_variants
from perfkit_reports.page import embed, page
from perfkit_reports.palette import legend
from perfkit_reports.summary_columns import summary_columns
from perfkit_reports.variants import plane, time_bars, variant_styles

_NOTHING_RECORDED = "No step was traced and no memory recorded, so there is nothing yet to find anything in."


def render(analysis: Analysis) -> str:
    """The whole page. Everything from the analysis is escaped; nothing is fetched when it is opened."""
    roofline = plane(analysis)
    return page(
        "report.html.j2",
        all_figures(analysis),
        analysis=analysis,
        headline=headline,
        Estimate=Estimate,
        ok=Status.OK,
        ops=telling(ops.COLUMNS, [row for variant in analysis.variants for row in variant.ops]),
        styles=variant_styles(analysis),
        columns=summary_columns(analysis),
        alone=headline.alone(analysis),
        name_owners=headline.names_owners(analysis),
        attached=headline.attached(analysis),
        compares=headline.compares(analysis),
        watched=watched,
        **({} if headline.examined(analysis) else {"nothing_found": _NOTHING_RECORDED}),
        plane=roofline,
        kinds=kinds(roofline),
        left_out=left_out(roofline),
        known_ceilings=[analysis.ceilings] if analysis.ceilings and analysis.ceilings.ceilings else [],
        report_json=embed(msgspec.json.encode(analysis).decode()),
        time_legend=legend([bar.categories for bar in time_bars(analysis)]),
        **memory_section.context(of_variants(analysis), headline.word(analysis)),
        expandable=_expandable,
    )


def _expandable(variant: Variant) -> bool:
    return bool(
        variant.claims or variant.traceback or variant.setup or variant.warnings or variant.compile or _failed(variant)
    )


def _failed(variant: Variant) -> bool:
    """Whether it is known what filled the memory when it ran out."""
    return variant.memory is not None and variant.memory.failed is not None
