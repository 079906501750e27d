"""What fills the memory at the peak: a stacked bar for each holder."""

from collections.abc import Sequence

from perfkit_reports.charts.memory_bars import Stack, figure
from perfkit_reports.document.blocks import Block, Chart
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder, categories_at_peak


def chart(holders: Sequence[Holder], what: str, weight: Weight, words: Block | None) -> Chart | None:
    """None where no memory was recorded; `what` is what a holder is."""
    if not any(holder.account.peak_bytes for holder in holders):
        return None
    return Chart(
        id="memory-peak",
        weight=weight,
        figure=figure([_stack(holder) for holder in holders], "allocated at the peak", "of the peak"),
        label=f"Memory at the peak by category and {what}; the balance below holds the same figures",
        title="At the peak",
        legend=[(name, fill.colour, fill.pattern) for name, fill in categories_at_peak(holders)],
        words=words,
    )


def _stack(holder: Holder) -> Stack:
    parts = tuple((part.category, float(part.bytes)) for part in holder.account.categories)
    note = "out of memory" if holder.account.failed else ""
    return Stack(holder.name, holder.account.peak_bytes, parts, note=note)
