"""What is told of a variant, as cells: one function a column."""

from dataclasses import replace

from perfkit import units
from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.record import Measurement
from perfkit.store.price import Price, format_cost_unit
from perfkit_reports.cells import between, quantity, relative, share, span, times
from perfkit_reports.document.cells import Cell, unknown
from perfkit_reports.wording import plural

NO_LOADER = "no DataLoader of torch's was seen at work"
_ICONS = {"faster": "▲", "slower": "▼", "no difference": "="}


def step_time(variant: Variant) -> Cell:
    return estimated(variant.step_time, _quartiles(variant) if variant.loop else "")


def cpu_time(variant: Variant) -> Cell:
    cell = estimated(variant.cpu_time)
    return replace(cell, detail="") if variant.loop else cell


def estimated(time: MedianEstimate | MissingEstimate, spread: str = "") -> Cell:
    """With its interval, where the `spread` of one process does not stand for it."""
    if isinstance(time, MissingEstimate):
        return unknown(time.reason)
    return Cell(units.seconds(time.value), detail=spread or _interval(time), value=time.value)


def cpu_change(variant: Variant) -> Cell:
    """CPU time against the baseline's: steadier than wall time on a machine that others use."""
    difference = variant.cpu_difference
    if difference is None:
        return unknown("no CPU times to compare")
    low, high = difference.low, difference.high
    interval = [] if low is None or high is None else [between(low - 1, high - 1)]
    detail = ", ".join([difference.verdict, *interval])
    return Cell(units.signed_percent(difference.ratio - 1), detail=detail, value=difference.ratio)


def interval_level(analysis: Analysis) -> str:
    """The confidence level of the intervals; empty where nothing was measured."""
    levels = {variant.step_time.level for variant in analysis.variants if isinstance(variant.step_time, MedianEstimate)}
    return " and ".join(units.percent(level, 0) for level in sorted(levels))


def speed_up(variant: Variant) -> Cell:
    """How many times as fast as the baseline: the inverse of the ratio of step times."""
    if variant.is_baseline:
        return Cell("baseline", value=1.0)
    if variant.emulated:
        return Cell("emulated", reason=variant.emulated, tone="unsure")
    difference = variant.difference
    if difference is None:
        return unknown(variant.reason or "there is no baseline to compare with")
    tone = {"faster": "good", "slower": "bad"}.get(difference.verdict, "unsure")
    per = f"per {variant.compared_per}" if variant.compared_per else ""
    detail = ", ".join(filter(None, (speed_interval(variant), per)))
    return Cell(times(1 / difference.ratio), detail=detail, value=1 / difference.ratio, tone=tone)


def marked_speed_up(variant: Variant) -> Cell:
    """With the verdict's icon, since colour alone may not show."""
    cell, difference = speed_up(variant), variant.difference
    if variant.is_baseline or difference is None:
        return cell
    return replace(cell, text=f"{_ICONS.get(difference.verdict, '?')} {cell.text}")


def verdict(variant: Variant) -> Cell:
    """In words, with how many pairs it rests on."""
    difference = variant.difference
    if variant.is_baseline or difference is None:
        return Cell("")
    detectable = difference.detectable
    limit = "" if detectable is None else f"; a change under {units.percent(detectable)} could not have been shown"
    what = f"of the time per {variant.compared_per}: " if variant.compared_per else ""
    reason = f"{what}{plural(difference.pairs, 'pair')} of processes against {difference.baseline}{limit}"
    return Cell(difference.verdict, reason=reason, tone=speed_up(variant).tone)


def speed_interval(variant: Variant) -> str:
    difference = variant.difference
    if difference is None:
        return ""
    if difference.low is None or difference.high is None:
        return "no interval"
    return span(times(1 / difference.high), times(1 / difference.low), "×")


def throughput(variant: Variant) -> Cell:
    rate = variant.throughput
    if isinstance(rate, MissingEstimate):
        return unknown(rate.reason)
    return Cell(f"{units.significant(rate.value)} {throughput_unit(variant)}", value=rate.value)


def rate(variant: Variant) -> Cell:
    """Throughput without its unit, for a column that has it in its title."""
    cell = throughput(variant)
    return replace(cell, text=cell.text.removesuffix(throughput_unit(variant)).strip())


def cost(variant: Variant, price: Price) -> Cell:
    """What a million tokens or a thousand samples cost, with the interval of the throughput."""
    known = variant.cost
    if known is None or isinstance(known, MissingEstimate):
        return unknown("no price was told" if known is None else known.reason)
    detail = (
        "" if known.low is None or known.high is None else f"{price.format_amount(known.low)}–{price.shown(known.high)}"
    )
    return Cell(price.format_amount(known.value), detail=detail, value=known.value)


def cost_unit(variant: Variant) -> str:
    """What a cost is of: `1M tokens`."""
    return format_cost_unit(throughput_unit(variant).removesuffix("/s"))


def throughput_unit(variant: Variant) -> str:
    unit = variant.throughput_unit or "units"
    return unit if unit.endswith("/s") else f"{unit}/s"


def waiting(loop: LoopAnalysis) -> Cell:
    """The share of the time that waits for data, and what that is in the median step."""
    if loop.data_wait_share is None:
        return unknown(NO_LOADER)
    detail = "" if loop.data_wait_s is None else f"{units.seconds(loop.data_wait_s)} in the median step"
    return replace(share(loop.data_wait_share), detail=detail)


def data_wait(variant: Variant) -> Cell:
    """How long a step waits for its data, as a share of the time."""
    if variant.loop is not None:
        return waiting(variant.loop)
    if variant.data_wait_share is None:
        return unknown("the workload has no DataLoader: its batches are made before it trains")
    return share(variant.data_wait_share)


def peak_memory(variant: Variant) -> Cell:
    peak = variant.peak_allocated
    if not isinstance(peak, Measurement):
        return unknown(peak.reason)
    ratio = variant.memory_ratio
    per = f" per {variant.compared_per}" if variant.compared_per else ""
    change = "" if ratio is None or variant.is_baseline else units.signed_percent(ratio - 1) + per
    tone = "" if ratio is None or abs(ratio - 1) < 0.001 else "good" if ratio < 1 else "bad"
    return Cell(units.nbytes(peak.value), detail=change, value=peak.value, tone=tone)


def utilisation(variant: Variant) -> Cell:
    """MFU; where HFU, which also counts recomputed FLOPs, is another one, that on the second line."""
    mfu, hfu = quantity(variant.mfu), quantity(variant.hfu)
    return replace(mfu, detail="" if mfu.reason or hfu.reason or hfu.text == mfu.text else f"HFU {hfu.text}")


def energy(variant: Variant) -> Cell:
    """Of a step, with that of a token or sample and the mean power on the second line."""
    cell = quantity(variant.energy_per_step)
    rest = [quantity(part) for part in (variant.energy_per_unit, variant.power)]
    return cell if cell.reason else replace(cell, detail=", ".join(part.text for part in rest if not part.reason))


def loss_parity(variant: Variant) -> Cell:
    parity = variant.parity
    if parity.not_finite_step is not None:
        return Cell(parity.verdict, detail=f"not finite at step {parity.not_finite_step}", tone="bad")
    if variant.is_baseline:
        return Cell("reference")
    if parity.verdict == "unknown":
        return unknown(parity.basis or variant.reason)
    tone = {"equal": "good", "within tolerance": "good", "differs": "bad"}.get(parity.verdict, "unsure")
    largest = "" if parity.max_relative is None else f"max {relative(parity.max_relative)}"
    return Cell(parity.verdict, detail=largest, value=parity.max_relative, tone=tone)


def active(variant: Variant) -> Cell:
    """Whether every claim of the variant's techniques holds: that they really acted."""
    if variant.is_baseline:
        return Cell("–", reason="the baseline applies no technique")
    held = sum(claim.holds is True for claim in variant.claims)
    detail = f"{held} of {plural(len(variant.claims), 'claim')}" if variant.claims else ""
    if variant.engaged is None:
        reason = variant.reason or "a fact needed to check the claims is missing"
        return replace(unknown(reason), detail=detail, tone="unsure")
    if any(claim.already for claim in variant.claims):
        detail += ", already so in the baseline"
    word, tone = ("yes", "good") if variant.engaged else ("no", "bad")
    return Cell(word, detail=detail, value=float(variant.engaged), tone=tone)


def _quartiles(variant: Variant) -> str:
    """Of the steps of a loop, which ran once; empty for fewer than four."""
    steps = sorted(step for run in variant.step_samples for step in run)
    return f"p25 to p75: {_range(steps[len(steps) // 4], steps[(3 * len(steps)) // 4])}" if len(steps) >= 4 else ""


def _interval(time: MedianEstimate) -> str:
    if time.low is None or time.high is None:
        return f"no interval from {plural(len(time.per_process), 'process', 'processes')}"
    return _range(time.low, time.high)


def _range(low_s: float, high_s: float) -> str:
    high = units.seconds(high_s)
    return span(units.seconds(low_s), high, f" {high.split(' ')[-1]}")
