"""Cells of a variant, one function per column."""

from dataclasses import replace

from perfkit.analysis.compare.device_clocks import find_main_limit, format_megahertz
from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.suite import Analysis, DeviceClocks, Parity, Variant
from perfkit.analysis.pipeline.fastest_variant import is_sound
from perfkit.core import units
from perfkit.core.record.quantity import Measurement, get_whole
from perfkit.store.price import Price, format_cost_unit
from perfkit_reports.cells import (
    drop_whole,
    format_bounds,
    format_factor,
    format_range,
    format_relative,
    make_quantity_cell,
    make_share_cell,
)
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.wording import format_plural

NO_LOADER = "no torch DataLoader was active"
_ICONS = {"faster": "▲", "slower": "▼", "no difference": "="}


def make_step_time_cell(variant: Variant) -> Cell:
    return make_estimate_cell(variant.step_time, _format_quartiles(variant) if variant.loop else "")


def make_cpu_time_cell(variant: Variant) -> Cell:
    cell = make_estimate_cell(variant.cpu_time)
    return replace(cell, detail="") if variant.loop else cell


def make_estimate_cell(time: MedianEstimate | MissingEstimate, spread: str = "") -> Cell:
    """Step time with its interval, or with the spread of one process."""
    if isinstance(time, MissingEstimate):
        return make_unknown_cell(time.reason)
    return Cell(units.format_seconds(time.value), detail=spread or _format_interval(time), value=time.value)


def make_cpu_change_cell(variant: Variant) -> Cell:
    """CPU time relative to the baseline: steadier than wall time on a shared machine."""
    difference = variant.cpu_difference
    if difference is None:
        return make_unknown_cell("no CPU times to compare")
    low, high = difference.low, difference.high
    interval = [] if low is None or high is None else [format_bounds(low - 1, high - 1)]
    detail = ", ".join([difference.verdict, *interval])
    return Cell(units.format_signed_percent(difference.ratio - 1), detail=detail, value=difference.ratio)


def get_interval_level(analysis: Analysis) -> str:
    """Confidence level of the intervals; empty if there is none."""
    times = [variant.step_time for variant in analysis.variants if isinstance(variant.step_time, MedianEstimate)]
    levels = {time.level for time in times if time.low is not None}
    return " and ".join(units.format_percent(level, 0) for level in sorted(levels))


def make_speed_up_cell(variant: Variant) -> Cell:
    """Speed-up over the baseline: the inverse of the ratio of step times."""
    if variant.is_baseline:
        return Cell("baseline", value=1.0)
    if variant.emulation_reason:
        return Cell("emulated", reason=variant.emulation_reason, tone="unsure")
    difference = variant.difference
    if difference is None:
        return make_unknown_cell(variant.reason or "no baseline to compare with")
    tone = {"faster": "good", "slower": "bad"}.get(difference.verdict, "unsure")
    per = f"per {variant.comparison_unit}" if variant.comparison_unit else ""
    if difference.low is None:  # a ratio without an interval says nothing
        once = f"{format_factor(1 / difference.ratio)} in {format_plural(difference.pairs, 'pair')}, no interval"
        return Cell("undecided", detail=", ".join(filter(None, (once, per))), value=1 / difference.ratio, tone=tone)
    detail = ", ".join(filter(None, (format_speed_interval(variant), per)))
    return Cell(format_factor(1 / difference.ratio), detail=detail, value=1 / difference.ratio, tone=tone)


def make_marked_speed_up_cell(variant: Variant) -> Cell:
    """Speed-up with the verdict's icon, since color alone may not show."""
    cell, difference = make_speed_up_cell(variant), variant.difference
    if variant.is_baseline or difference is None:
        return cell
    if not is_sound(variant):
        return replace(cell, tone="unsure")  # its name and what fails say why
    return replace(cell, text=f"{_ICONS.get(difference.verdict, '?')} {cell.text}")


def make_verdict_cell(variant: Variant) -> Cell:
    """The verdict, with the number of pairs behind it."""
    difference = variant.difference
    if variant.is_baseline or difference is None:
        return Cell("")
    detectable = difference.detectable
    limit = "" if detectable is None else f"; changes below {units.format_percent(detectable)} are not detectable"
    what = f"time per {variant.comparison_unit}: " if variant.comparison_unit else ""
    reason = f"{what}{format_plural(difference.pairs, 'pair')} of processes compared with {difference.baseline}{limit}"
    return Cell(difference.verdict, id=difference.verdict, reason=reason, tone=make_speed_up_cell(variant).tone)


def format_speed_interval(variant: Variant) -> str:
    difference = variant.difference
    if difference is None:
        return ""
    if difference.low is None or difference.high is None:
        return "no interval"
    return format_range(format_factor(1 / difference.high), format_factor(1 / difference.low), "×")


def list_speed_ends(variant: Variant) -> tuple[float, ...]:
    """The speed-up between the ends of its interval, the lower end first; empty without an interval."""
    difference = variant.difference
    if difference is None or difference.low is None or difference.high is None:
        return ()
    return 1 / difference.high, 1 / difference.ratio, 1 / difference.low


def make_throughput_cell(variant: Variant) -> Cell:
    rate = variant.throughput
    if isinstance(rate, MissingEstimate):
        return make_unknown_cell(rate.reason)
    return Cell(f"{units.format_significant(rate.value)} {get_throughput_unit(variant)}", value=rate.value)


def make_rate_cell(variant: Variant) -> Cell:
    """Throughput without its unit, which is in the column's title."""
    cell = make_throughput_cell(variant)
    return replace(cell, text=cell.text.removesuffix(get_throughput_unit(variant)).strip())


def make_cost_cell(variant: Variant, price: Price) -> Cell:
    """Cost of a million tokens or a thousand samples, with the interval of the throughput."""
    known = variant.cost
    if known is None or isinstance(known, MissingEstimate):
        return make_unknown_cell("no price given" if known is None else known.reason)
    detail = (
        ""
        if known.low is None or known.high is None
        else f"{price.format_amount(known.low)}–{price.format_amount(known.high)}"
    )
    return Cell(price.format_amount(known.value), detail=detail, value=known.value)


def get_cost_unit(variant: Variant) -> str:
    """Unit of a cost: `1M tokens`."""
    return format_cost_unit(get_throughput_unit(variant).removesuffix("/s"))


def get_throughput_unit(variant: Variant) -> str:
    unit = variant.throughput_unit or "units"
    return unit if unit.endswith("/s") else f"{unit}/s"


def make_waiting_cell(loop: LoopAnalysis) -> Cell:
    """Share of time spent waiting for data, and the wait of the median step."""
    if loop.data_wait_share is None:
        return make_unknown_cell(NO_LOADER)
    detail = "" if loop.data_wait_s is None else f"{units.format_seconds(loop.data_wait_s)} in the median step"
    return replace(make_share_cell(loop.data_wait_share), detail=detail)


def make_data_wait_cell(variant: Variant) -> Cell:
    """Data wait per step as a share of the step time."""
    if variant.loop is not None:
        return make_waiting_cell(variant.loop)
    if variant.data_wait_share is None:
        return make_unknown_cell("the workload has no DataLoader; batches are made before training")
    return make_share_cell(variant.data_wait_share)


def make_peak_memory_cell(variant: Variant) -> Cell:
    peak = variant.peak_allocated
    if not isinstance(peak, Measurement):
        return make_unknown_cell(peak.reason)
    ratio = variant.memory_ratio
    per = f" per {variant.comparison_unit}" if variant.comparison_unit else ""
    change = "" if ratio is None or variant.is_baseline else units.format_signed_percent(ratio - 1) + per
    tone = "" if ratio is None or abs(ratio - 1) < 0.001 else "good" if ratio < 1 else "bad"
    return Cell(units.format_bytes(peak.value), detail=change, value=peak.value, tone=tone)


def make_utilization_cell(variant: Variant) -> Cell:
    """MFU; on the second line its peak, and HFU, which includes recomputed FLOPs, if it differs."""
    mfu, hfu = (make_quantity_cell(drop_whole(share)) for share in (variant.mfu, variant.hfu))
    told = (
        f"of {whole}" if (whole := get_whole(variant.mfu)) else "",
        "" if hfu.reason or hfu.value == mfu.value else f"HFU {hfu.text}",
    )
    return replace(mfu, detail="; ".join(filter(None, told)))


def make_energy_cell(variant: Variant) -> Cell:
    """Energy of a step, with energy per token or sample and mean power on the second line."""
    cell = make_quantity_cell(variant.energy_per_step)
    rest = [make_quantity_cell(part) for part in (variant.energy_per_unit, variant.power)]
    return cell if cell.reason else replace(cell, detail=", ".join(part.text for part in rest if not part.reason))


def make_clock_cell(clocks: DeviceClocks) -> Cell:
    """The median clock during the timed steps, with the highest and the most frequent limit."""
    highest = "" if clocks.max_hz is None else f" of {format_megahertz(clocks.max_hz)}"
    detail = ", ".join(filter(None, [find_main_limit(clocks), format_plural(clocks.readings, "reading")]))
    return Cell(f"{format_megahertz(clocks.sm_hz)}{highest} MHz", detail=detail, value=clocks.sm_hz)


def make_loss_cell(variant: Variant) -> Cell:
    parity = variant.parity
    if parity.not_finite_step is not None:
        return Cell(
            parity.verdict, id=parity.verdict, detail=f"not finite at step {parity.not_finite_step}", tone="bad"
        )
    if variant.is_baseline:
        return Cell("reference")
    if parity.verdict == "unknown":
        return make_unknown_cell(parity.basis or variant.reason)
    tone = {"equal": "good", "within tolerance": "good", "differs": "bad"}.get(parity.verdict, "unsure")
    detail = _format_loss_difference(parity)
    if detail and parity.steps < parity.recorded_steps:
        detail += f", {parity.steps} of {parity.recorded_steps} steps"
    return Cell(parity.verdict, id=parity.verdict, detail=detail, value=parity.max_relative, tone=tone)


def _format_loss_difference(parity: Parity) -> str:
    """`3.1e-03 ≤ 2.0e-02`: the largest difference beside its tolerance."""
    if parity.max_relative is None:
        return ""
    largest = format_relative(parity.max_relative)
    if parity.tolerance is None:
        return f"max {largest}"
    return f"{largest} {'≤' if parity.max_relative <= parity.tolerance else '>'} {format_relative(parity.tolerance)}"


def make_active_cell(variant: Variant) -> Cell:
    """`yes` if every technique check of the variant passes."""
    if variant.is_baseline:
        return Cell("–", reason="the baseline applies no technique")
    passed = sum(claim.holds is True for claim in variant.claims)
    detail = f"{passed}/{len(variant.claims)} checks" if variant.claims else ""
    if variant.active is None:
        reason = variant.reason or "a fact that a check needs is missing"
        return replace(make_unknown_cell(reason), detail=detail, tone="unsure")
    if any(claim.holds_in_baseline for claim in variant.claims):
        detail += ", already true in the baseline"
    if variant.copies:
        detail += ", undeclared memory"
    word, tone = ("yes", "good") if variant.active else ("in part" if variant.active_in_part else "no", "bad")
    return Cell(word, detail=detail, value=float(variant.active), tone=tone)


def _format_quartiles(variant: Variant) -> str:
    """Quartiles of a loop's steps (a loop runs once); empty for fewer than four."""
    steps = sorted(step for run in variant.step_samples for step in run)
    return (
        f"p25–p75: {_format_seconds_range(steps[len(steps) // 4], steps[(3 * len(steps)) // 4])}"
        if len(steps) >= 4
        else ""
    )


def _format_interval(time: MedianEstimate) -> str:
    if time.low is None or time.high is None:
        return f"no interval from {format_plural(len(time.per_process), 'process', 'processes')}"
    return _format_seconds_range(time.low, time.high)


def _format_seconds_range(low_s: float, high_s: float) -> str:
    high = units.format_seconds(high_s)
    return format_range(units.format_seconds(low_s), high, f" {high.split(' ')[-1]}")
