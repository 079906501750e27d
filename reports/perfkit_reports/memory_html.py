"""The report.html on memory: text from the templates, figures drawn by the plotly.js inside it."""

from perfkit.analysis.memory.result import MemoryAnalysis
from perfkit_reports import memory_headline, memory_section, memory_story
from perfkit_reports.figures.memory import memory_figures
from perfkit_reports.holders import of_devices
from perfkit_reports.page import page


def render(analysis: MemoryAnalysis) -> str:
    """The whole page. Everything from the analysis is escaped; nothing is fetched when it is opened."""
    holders = of_devices(analysis.accounts)
    return page(
        "memory/page.html.j2",
        memory_figures(holders),
        analysis=analysis,
        sections=[("summary", "Summary"), ("findings", "Findings"), ("memory", "Memory"), ("method", "Method")],
        name_owners=len(holders) > 1,
        headline=memory_story.headline(holders),
        tiles=[tile for holder in holders[:1] for tile in memory_headline.tiles(holder.account)],
        **memory_section.context(holders, "device"),
    )
