"""Sentences about a trace's launches, overlap, coverage and ranks, with numbers."""

from perfkit.analysis.model.coverage import Coverage
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.model.launches import Launches
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit.core.record.quantity import Unknown
from perfkit.devices.accelerator import is_cpu, is_gpu
from perfkit_reports.cells import format_count
from perfkit_reports.wording import format_bounded, format_plural, format_sentence

# Of communication or copies: the least share outside the steps to report.
_OUTSIDE = 0.01


def _format_share(part: float, whole: float) -> str:
    return (
        f"{units.format_seconds(part)} ({units.format_percent(part / whole)})"
        if whole > 0
        else units.format_seconds(part)
    )


def get_other_median_s(trace: RankTrace) -> float | None:
    """The median step where it differs from the mean; else None."""
    return trace.typical_step_s if trace.typical_step_s != trace.step_s else None


def get_time_basis(trace: RankTrace) -> str:
    """The basis of the seconds: `per step`, or `in total`."""
    return "per step" if trace.steps else "in total"


def name_critical_device(trace: RankTrace) -> str:
    """`device 0`, where a trace has several and figures are of that one; else empty."""
    critical = next((row for row in trace.devices if row.critical), None)
    return "" if critical is None or len(trace.devices) == 1 else f"device {critical.number}"


def name_device(trace: RankTrace) -> str:
    """`GPU`, else `device`."""
    return "GPU" if is_gpu(trace.device) else "device"


def describe_launches(trace: RankTrace) -> list[str]:
    """Describe the launches of the device, or why they are unknown."""
    launched = trace.launches
    if trace.missing_device_reason:
        return ["No device work was recorded: launch behavior unknown."]
    if launched is None and is_cpu(trace.device):
        return ["No launches: the CPU runs ops synchronously."]
    if launched is None:
        within = " within the steps" if trace.steps else ""
        return [f"Nothing ran on the device{within}: launch behavior unknown."]
    whole = get_time_basis(trace)
    idle_time = format_bounded(_format_share(launched.idle_s, trace.step_s), launched.idle_bound)
    idle = f"{(name_critical_device(trace) or 'device').capitalize()} idle: {idle_time} {whole}"
    if launched.starved_s is None:
        lines = [f"{idle}; unknown whether work was queued."]
    else:
        starved = _format_share(launched.starved_s, trace.step_s)
        lines = [f"{idle}, {starved} with nothing queued{_describe_lateness(launched)}."]
    if launched.delay_s is not None:
        tenth = launched.delay_p90_s
        slowest = "" if tenth is None else f", p90 {units.format_seconds(tenth)}"
        lines.append(f"Launch delay: median {units.format_seconds(launched.delay_s)}{slowest}.")
    if launched.queue_depth is not None:
        depth = "0" if launched.queue_depth < 1 else format_count(launched.queue_depth)
        lines.append(f"Kernels queued at kernel start: median {depth}.")
    if launched.short_kernels > 0:
        recorded = "recorded " if launched.idle_bound else ""
        lines.append(
            f"Kernels under {launched.short_below_s * 1e6:g} us: {format_count(launched.short_kernels)} of "
            f"{format_count(launched.kernels)} {recorded}{whole}, running {units.format_seconds(launched.short_s)}, "
            f"device idle {units.format_seconds(launched.short_gap_s)} before them."
        )
    if launched.sync_calls > 0:
        lines.append(
            f"Synchronizing CPU calls: {format_count(launched.sync_calls)} {whole}, "
            f"{units.format_seconds(launched.sync_s)}."
        )
    if launched.graph_launches > 0:
        lines.append(f"CUDA graph launches: {format_count(launched.graph_launches)} {whole}.")
    return lines + ([format_sentence(launched.note)] if launched.note else [])


def _describe_lateness(launched: Launches) -> str:
    """The time of late launches, which come after the device has finished; other idle time has other causes."""
    if not launched.late_s or not launched.starved_s:
        return ""
    much = "" if launched.late_s > 0.99 * launched.starved_s else f" for {units.format_seconds(launched.late_s)}"
    return f": CPU launched late{much}"


def describe_load(trace: RankTrace) -> str:
    """SM efficiency and occupancy, or why they are unknown; empty without kernels in the steps."""
    load = trace.device_load
    if load is None or trace.missing_device_reason:
        return ""
    if load.sm_efficiency is None:
        return "SM efficiency unknown: kernels' grids or the device's SMs were not recorded."
    whole = "step" if trace.steps else "trace"
    lower = "" if load.known_share >= 1 else "at least "
    efficiency = f"{lower}{units.format_percent(load.sm_efficiency)} of the {whole}, idle time as 0"
    if load.occupancy is None:
        return f"Estimated SM efficiency: {efficiency}. Occupancy unknown."
    known = (
        "" if load.occupancy_share >= 1 else f", known for {units.format_percent(load.occupancy_share)} of that time"
    )
    occupancy = f"{units.format_percent(load.occupancy)} over kernel time{known}"
    return f"Estimated SM efficiency: {efficiency}. Occupancy: {occupancy}."


def describe_overlap(trace: RankTrace) -> list[str]:
    """Describe communication and copies, and their overlap with compute."""
    overlap, lines = trace.overlap, []
    for name, total, exposed, everywhere in (
        ("Communication", overlap.communication_s, overlap.exposed_communication_s, overlap.all_communication_s),
        ("Copies", overlap.copies_s, overlap.exposed_copies_s, overlap.all_copies_s),
    ):
        in_steps = total * max(len(trace.steps), 1)
        if total > 0:
            lines.append(
                f"{name}: {_format_share(total, trace.step_s)} {get_time_basis(trace)}, "
                f"{_format_share(exposed, total)} exposed" + ("." if exposed >= total else ", the rest overlapped.")
            )
        if everywhere - in_steps > _OUTSIDE * everywhere:
            lines.append(
                f"{name} in the whole trace: {units.format_seconds(everywhere)}, "
                f"{units.format_seconds(everywhere - in_steps)} outside the steps."
            )
    return lines


def describe_recompute(trace: RankTrace) -> str:
    """The work that activation checkpointing recomputes; empty where it does not."""
    recomputed = trace.recompute
    if recomputed is None:
        return ""
    time, flops = _format_share(recomputed.seconds, trace.step_s), units.format_flops(recomputed.flops)
    return (
        f"Checkpointing recomputes {format_count(recomputed.ops)} forward ops: {time} and {flops} "
        f"{get_time_basis(trace)}, counted in HFU, not in MFU."
    )


def describe_coverage(trace: RankTrace) -> str:
    """The part of kernel time with an op, FLOPs and bytes."""
    covered = trace.coverage
    if covered.kernel_s <= 0:
        return "The trace has no kernels and no ops."
    what = "ops" if is_cpu(trace.device) else "kernels"

    def share(part: float) -> str:
        return units.format_percent(part / covered.kernel_s)

    counted = f", {share(covered.counted_s)} counted by hardware" if covered.counted_s > 0 else ""
    above = (
        f" {_format_share(covered.above_roof_s, covered.kernel_s)} is above a roof: a ceiling or a cost model is wrong."
        if covered.above_roof_s > 0
        else ""
    )
    if trace.missing_device_reason:
        return (
            f"Recorded: {units.format_seconds(covered.kernel_s)} in {format_plural(covered.kernels, 'CPU op')}. The "
            "work "
            "that they launched was not recorded: its time is unknown."
        )
    inferred = f"{share(covered.inferred_s)} matches kernels of known ops, " if covered.inferred_s > 0 else ""
    linked = "" if is_cpu(trace.device) else f"{share(covered.linked_s)} has a matching op, {inferred}"
    return (
        f"Whole trace: {units.format_seconds(covered.kernel_s)} in {format_plural(covered.kernels, what[:-1])}; "
        f"{linked}{share(covered.flops_s)} has FLOPs and {share(covered.bytes_s)} has bytes{counted}"
        + (f"; {share(covered.bounded_s)} as bounds" if covered.bounded_s > 0 else "")
        + (f"; bytes of {share(covered.estimated_s)} estimated from arguments" if covered.estimated_s > 0 else "")
        + f".{_describe_joined(covered)}{above}"
    )


def _describe_joined(covered: Coverage) -> str:
    if not covered.replayed_kernels:
        return ""
    replayed = format_plural(covered.replayed_kernels, "replayed kernel")
    return f" Joined from capture: {covered.joined_kernels:,} of {replayed}."


def describe_utilization(trace: RankTrace) -> str:
    """MFU with its basis, or why it is unknown."""
    mfu = trace.mfu
    if isinstance(mfu, Unknown):
        return f"MFU unknown: {mfu.reason}."
    of = f" of {mfu.of}" if mfu.of else ""
    return f"MFU: {format_bounded(units.format_percent(mfu.value), mfu.bound)}{of}, {mfu.how.value} ({mfu.source})."


def describe_fleet(job: Fleet) -> list[str]:
    """The straggler and the spread of the ranks."""
    lines = []
    if job.straggler:
        late = next((row.late_s for row in job.ranks if row.label == job.straggler), None)
        by = "" if late is None else f", {units.format_seconds(late)} per step after the first rank"
        also = f"; {format_plural(len(job.stragglers) - 1, 'other rank')} late with it" if job.stragglers else ""
        lines.append(f"Straggler: {job.straggler}{by}{also}.")
    if job.step_spread is not None:
        lines.append(f"Rank step times differ by {units.format_percent(job.step_spread)}.")
    return lines + [format_sentence(note.text) for note in job.notes]


def describe_reading(trace: RankTrace) -> str:
    """The size of a trace on disk, and its contents."""
    file = trace.file_info
    size = units.format_bytes(file.file_bytes)
    if file.json_bytes != file.file_bytes:
        size += f", {units.format_bytes(file.json_bytes)} uncompressed"
    outside = f"; {units.format_seconds(trace.outside_steps_s)} outside steps" if trace.outside_steps_s > 0 else ""
    return f"{format_plural(file.events, 'event')} in {size}, {units.format_seconds(trace.span_s)} long{outside}"
