"""The peak of each recorded step."""

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core import units
from perfkit_reports.charts.frame import Figure, build_axis, build_bars, build_figure, choose_byte_scale, format_hover
from perfkit_reports.document.blocks import Chart, Text
from perfkit_reports.palette import BLUE, Fill


def build_chart(account: MemoryAccount, place: int, text: str) -> Chart | None:
    """Build the chart; None where all steps peak alike; `told` says the same in a sentence."""
    peaks = account.step_peaks
    if len(set(peaks)) < 2:
        return None
    return Chart(
        id=f"memory-steps-{place}",
        figure=_build_figure(peaks),
        label=text,
        title="Peak of each step",
        caption=text,
        words=Text(id=f"memory-steps-{place}-words", lines=(text,)),
    )


def _build_figure(peaks: tuple[int, ...]) -> Figure:
    scale, unit = choose_byte_scale(max(peaks))
    hovers = (
        format_hover(f"{number} of {len(peaks)}", units.format_bytes(peak)) for number, peak in enumerate(peaks, 1)
    )
    return build_figure(
        [build_bars(Fill(BLUE), range(1, len(peaks) + 1), (peak / scale for peak in peaks), hovers)],
        height=180,
        bargap=0.5,
        xaxis=build_axis("recorded step", fixedrange=True, tick0=1, dtick=max(1, len(peaks) // 10)),
        yaxis=build_axis(f"peak ({unit})", rangemode="tozero", fixedrange=True, nticks=4),
    )
