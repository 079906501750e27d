"""What a table says about a variant, as text: one function a column, shared by every renderer."""

from dataclasses import replace

from perfkit import units
from perfkit.analysis.model.estimate import Estimate, Missing
from perfkit.analysis.model.suite import Analysis, Parity, Variant
from perfkit.record import Measurement, Quantity, Status
from perfkit_reports.document.cells import NOT_KNOWN as NOT_KNOWN
from perfkit_reports.document.cells import Cell as Cell
from perfkit_reports.document.cells import unknown as unknown
from perfkit_reports.wording import bounded as bounded
from perfkit_reports.wording import plural as plural


def status(variant: Variant) -> Cell:
    tone = {Status.OK: "good", Status.SKIPPED: "unsure", Status.INTERRUPTED: "unsure"}.get(variant.status, "bad")
    return Cell(str(variant.status.value), value=variant.status.value, tone=tone)


def step_time(variant: Variant) -> Cell:
    time = variant.step_time
    if isinstance(time, Missing):
        return unknown(time.reason)
    return Cell(units.seconds(time.value), detail=_spread(variant) or _interval(time), value=time.value)


def cpu_time(variant: Variant) -> Cell:
    time = variant.cpu_time
    return (
        unknown(time.reason)
        if isinstance(time, Missing)
        else Cell(units.seconds(time.value), detail="" if variant.loop else _interval(time), value=time.value)
    )


def cpu_change(variant: Variant) -> Cell:
    """CPU time against the baseline's: steadier than wall time on a machine that others use."""
    difference = variant.cpu_difference
    if difference is None:
        return unknown("no CPU times to compare")
    detail = difference.verdict
    if difference.low is not None and difference.high is not None:
        detail += f", {units.signed_percent(difference.low - 1)} to {units.signed_percent(difference.high - 1)}"
    return Cell(units.signed_percent(difference.ratio - 1), detail=detail, value=difference.ratio)


def interval_level(analysis: Analysis) -> str:
    """The confidence level of the intervals; empty where nothing was measured."""
    levels = {variant.step_time.level for variant in analysis.variants if isinstance(variant.step_time, Estimate)}
    return " and ".join(units.percent(level, 0) for level in sorted(levels))


def speed_up(variant: Variant) -> Cell:
    """How many times as fast as the baseline: the inverse of the ratio of step times."""
    if variant.is_baseline:
        return Cell("baseline", value=1.0)
    difference = variant.difference
    if difference is None:
        return unknown(variant.reason or "there is no baseline to compare with")
    tone = {"faster": "good", "slower": "bad"}.get(difference.verdict, "unsure")
    return Cell(times(1 / difference.ratio), detail=speed_interval(variant), value=1 / difference.ratio, tone=tone)


def verdict(variant: Variant) -> Cell:
    if variant.is_baseline or variant.difference is None:
        return Cell("")
    difference = variant.difference
    icon = {"faster": "▲", "slower": "▼", "no difference": "="}.get(difference.verdict, "?")
    detectable = difference.detectable
    limit = "" if detectable is None else f"; a change under {units.percent(detectable)} could not have been shown"
    reason = f"{plural(difference.pairs, 'pair')} of processes against {difference.baseline}{limit}"
    return Cell(f"{icon} {difference.verdict}", reason=reason, tone=speed_up(variant).tone)


def speed_interval(variant: Variant) -> str:
    difference = variant.difference
    if difference is None:
        return ""
    if difference.low is None or difference.high is None:
        return "no interval"
    return span(times(1 / difference.high), times(1 / difference.low), "×")


def throughput(variant: Variant) -> Cell:
    rate = variant.throughput
    if isinstance(rate, Missing):
        return unknown(rate.reason)
    return Cell(f"{units.significant(rate.value)} {throughput_unit(variant)}", value=rate.value)


def data_wait(variant: Variant) -> Cell:
    """How long a step of the loop waits for its data, as a share of the time."""
    if variant.loop is None or variant.loop.data_wait_share is None:
        return unknown("no DataLoader of torch's was seen at work")
    wait_s, share = variant.loop.data_wait_s, variant.loop.data_wait_share
    detail = "" if wait_s is None else f"median {units.seconds(wait_s)}"
    return Cell(units.percent(share), detail=detail, value=share)


def throughput_unit(variant: Variant) -> str:
    unit = variant.throughput_unit or "units"
    return unit if unit.endswith("/s") else f"{unit}/s"


def peak_memory(variant: Variant) -> Cell:
    peak = variant.peak_allocated
    if not isinstance(peak, Measurement):
        return unknown(peak.reason)
    ratio = variant.memory_ratio
    change = "" if ratio is None or variant.is_baseline else units.signed_percent(ratio - 1)
    tone = "" if ratio is None or abs(ratio - 1) < 0.001 else "good" if ratio < 1 else "bad"
    return Cell(units.nbytes(peak.value), detail=change, value=peak.value, tone=tone)


def mfu(variant: Variant) -> Cell:
    return _bare(quantity(variant.mfu))


def utilisation(variant: Variant) -> Cell:
    """MFU with HFU, which also counts recomputed FLOPs, on the second line."""
    first, second = mfu(variant), hfu(variant)
    return (
        first
        if second.reason
        else Cell(first.text, detail=f"HFU {second.text}", reason=first.reason, value=first.value)
    )


def hfu(variant: Variant) -> Cell:
    return _bare(quantity(variant.hfu))


def energy(variant: Variant) -> Cell:
    """Of a step, with that of a token or sample and the mean power on the second line."""
    cell = quantity(variant.energy_per_step)
    rest = [quantity(each) for each in (variant.energy_per_unit, variant.power)]
    return cell if cell.reason else replace(cell, detail=", ".join(each.text for each in rest if not each.reason))


def loss_parity(variant: Variant) -> Cell:
    if variant.is_baseline:
        return Cell("reference")
    parity = variant.parity
    if parity.verdict == "unknown":
        return unknown(parity.basis or variant.reason)
    tone = {"equal": "good", "within tolerance": "good", "differs": "bad"}.get(parity.verdict, "unsure")
    return Cell(parity.verdict, detail=_loss_difference(parity), value=parity.max_relative, tone=tone)


def engaged(variant: Variant) -> Cell:
    if variant.is_baseline:
        return Cell("–", reason="the baseline applies no technique")
    held = sum(claim.holds is True for claim in variant.claims)
    detail = f"{held} of {plural(len(variant.claims), 'claim')}" if variant.claims else ""
    if variant.engaged is None:
        return Cell(
            NOT_KNOWN,
            detail=detail,
            reason=variant.reason or "a fact needed to check the claims is missing",
            tone="unsure",
        )
    return Cell(
        "yes" if variant.engaged else "no",
        detail=detail,
        value=float(variant.engaged),
        tone="good" if variant.engaged else "bad",
    )


def quantity(known: Quantity) -> Cell:
    """A quantity in the unit it carries."""
    if not isinstance(known, Measurement):
        return unknown(known.reason)
    show = {
        "s": units.seconds,
        "bytes": units.nbytes,
        "FLOP": units.flops,
        "FLOP/s": units.flops_per_s,
        "B/s": units.bandwidth,
        "1": units.percent,
    }.get(known.unit)
    text = bounded(show(known.value) if show else units.si(known.value, known.unit), known.bound)
    return Cell(
        text, detail=f"{known.how.value}: {known.source}" if known.source else known.how.value, value=known.value
    )


def times(factor: float) -> str:
    return f"{factor:.2f}×"


def span(low: str, high: str, unit: str) -> str:
    """`122 ms`, `126 ms` -> `122–126 ms`; the unit is repeated only where the two differ."""
    return f"{low.removesuffix(unit)}–{high}" if low.endswith(unit) else f"{low} – {high}"


def relative(value: float) -> str:
    """A relative difference that may be tiny: 0 or one significant digit and the power of ten."""
    return "0" if value == 0 else f"{value:.1e}"


def _spread(variant: Variant) -> str:
    """Of a loop, which ran once, within what the middle half of its steps lies."""
    steps = sorted(step for run in variant.step_samples for step in run)
    if variant.loop is None or len(steps) < 4:
        return ""
    low, high = units.seconds(steps[len(steps) // 4]), units.seconds(steps[(3 * len(steps)) // 4])
    return "half of the steps " + span(low, high, f" {high.split(' ')[-1]}")


def _interval(time: Estimate) -> str:
    if time.low is None or time.high is None:
        return f"no interval from {plural(len(time.per_process), 'process', 'processes')}"
    low, high = units.seconds(time.low), units.seconds(time.high)
    return span(low, high, f" {high.split(' ')[-1]}")


def _loss_difference(parity: Parity) -> str:
    if parity.max_relative is None:
        return ""
    return f"off by {relative(parity.max_relative)}"


def _bare(cell: Cell) -> Cell:
    """Without its second line: what a utilisation is relative to is the same down the column."""
    return cell if cell.reason else Cell(cell.text, value=cell.value)
