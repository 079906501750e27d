"""Cells of advice: savings, memory, losses and measurements of an option."""

from perfkit.analysis.model.plan import Interval
from perfkit.core.units import format_bytes, format_percent, format_signed_percent
from perfkit.plan.advise.advice import AdviceOption, Goal, MeasuredOption
from perfkit_reports.cells import format_range
from perfkit_reports.document.cells import Cell, make_unknown_cell

_NO_CHANGE = 0.005  # of the step or the peak: less is shown as none
_NOTABLE = 0.01  # of the step or the peak: less is not worth a run


def make_time_cell(option: AdviceOption) -> Cell:
    """Change of the step time with its bounds: `-38 % (-45 to -20)`; for `cost` that of the time per sample."""
    saving, share = option.saving_s, option.saving_share
    if saving is None or share is None:
        return make_unknown_cell("; ".join(option.unknown_reasons))
    scale = share / saving.value if saving.value else 0.0
    low, high = -saving.high * scale, -saving.low * scale
    if max(abs(low), abs(high)) < _NO_CHANGE:
        return Cell("no change", value=0.0)
    tone = "good" if share > 0 else "bad"
    if saving.bound == "at most":
        return Cell(f"{format_signed_percent(low, 0)} at most", value=-share, tone=tone)
    return Cell(f"{format_signed_percent(-share, 0)}{_format_ends(low, high)}", value=-share, tone=tone)


def is_worthwhile(option: AdviceOption, goal: Goal) -> bool:
    """True if an option may improve the goal by a notable part."""
    if goal == "batch":
        return bool(option.largest_batch)
    if goal == "memory":
        return compute_memory_change(option) <= -_NOTABLE
    saving, share = option.saving_s, option.saving_share
    return (
        saving is not None
        and share is not None
        and saving.value > 0
        and (saving.high * share / saving.value >= _NOTABLE)
    )


def make_memory_cell(option: AdviceOption) -> Cell:
    """Peak memory with its change."""
    if option.peak_bytes is None or option.saving_bytes is None:
        return make_unknown_cell("; ".join(option.unknown_reasons) or "memory was not planned")
    change = compute_memory_change(option)
    changed = "" if abs(change) < _NO_CHANGE else format_signed_percent(change, 0)
    tone = "bad" if option.fits is False or change > _NO_CHANGE else "good" if change < -_NO_CHANGE else ""
    value = option.peak_bytes.value
    return Cell(format_bytes(value), detail=changed or "no change", value=value, tone=tone)


def compute_memory_change(option: AdviceOption) -> float:
    """Relative change of the peak, whose savings are known."""
    if option.peak_bytes is None or option.saving_bytes is None:
        return 0.0
    before = option.peak_bytes.value + option.saving_bytes
    return -option.saving_bytes / before if before else 0.0


def make_fits_cell(option: AdviceOption) -> Cell:
    """Verdict against the memory limit."""
    if option.fits is None:
        return make_unknown_cell("the bounds of the peak do not decide, or no peak is known")
    text, tone = ("fits", "good") if option.fits else ("does not fit", "bad")
    return Cell(text, id=text, tone=tone)


def make_loss_cell(option: AdviceOption) -> Cell:
    """Effect on the loss in a word or two."""
    risk = option.risk
    if not risk.comparable:
        return Cell("changes results", tone="unsure")
    is_exact = risk.basis.startswith("lossless")
    return Cell("the same" if is_exact else f"within {format_percent(risk.tolerance or 0.0)}")


def make_reason_cell(option: AdviceOption) -> Cell:
    """Why it would save, or why nothing is known."""
    return Cell("; ".join(option.reasons) or ("unknown" if option.unknown_reasons else "no saving"))


def make_measured_cell(option: AdviceOption) -> Cell:
    """Measured change of the step time, with the peak, and whether the technique took effect."""
    measured = option.measured
    if measured is None:
        return make_unknown_cell("not among the measured ones")
    if measured.time_ratio is None:
        return make_unknown_cell(measured.reason or "no step time was measured")
    parts = [*_list_measured_details(measured)]
    return Cell(format_measured_time(measured), detail=", ".join(parts), value=measured.time_ratio - 1)


def format_measured_time(measured: MeasuredOption) -> str:
    """`-48 % (-50 to -45)`, of a known step time."""
    assert measured.time_ratio is not None
    ends = ""
    if measured.low is not None and measured.high is not None:
        ends = _format_ends(measured.low - 1, measured.high - 1)
    return f"{format_signed_percent(measured.time_ratio - 1, 0)}{ends}"


def format_peak(peak: Interval) -> str:
    """A size, or its bounds."""
    low, high = format_bytes(peak.low), format_bytes(peak.high)
    return high if peak.low == peak.high else format_range(low, high, f" {high.split(' ')[-1]}")


def _list_measured_details(measured: MeasuredOption) -> list[str]:
    acted = {True: "", False: "active in part" if measured.active_in_part else "not active", None: "not verified"}
    peak = "" if measured.peak_bytes is None else format_bytes(measured.peak_bytes)
    return [part for part in (peak, measured.reason or acted[measured.active]) if part]


def _format_ends(low: float, high: float) -> str:
    """` (-45 to -20)`, in percent; nothing where both round to the same."""
    ends = [f"{end * 100:+.0f}" for end in (low, high)]
    return "" if ends[0] == ends[1] else f" ({ends[0]} to {ends[1]})"
