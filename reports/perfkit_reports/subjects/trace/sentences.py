"""The sentences on a trace's launches, overlap, coverage and ranks, with numbers."""

from perfkit import units
from perfkit.analysis.model.coverage import Coverage
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.model.launches import Launches
from perfkit.analysis.model.trace import RankTrace
from perfkit.record import Unknown
from perfkit_reports.cells import format_count
from perfkit_reports.wording import format_bounded, format_plural, format_sentence

# Of communication or copies: from here on what lies outside of the steps is told.
_OUTSIDE = 0.01


def _format_share(part: float, whole: float) -> str:
    return (
        f"{units.format_seconds(part)} ({units.format_percent(part / whole)})"
        if whole > 0
        else units.format_seconds(part)
    )


def get_time_basis(trace: RankTrace) -> str:
    """What the seconds are of: `a step`, or `total`."""
    return "a step" if trace.steps else "total"


def describe_launches(trace: RankTrace) -> list[str]:
    """How well the host feeds the device, or why that is not known."""
    launched = trace.launches
    if trace.unseen_device:
        return ["Nothing of the device was recorded, so how the host feeds it is not known."]
    if launched is None and trace.device == "cpu":
        return ["On a CPU nothing is launched: ops run as they are called."]
    if launched is None:
        within = " within the steps" if trace.steps else ""
        return [f"Nothing ran on the device{within}, so how the host feeds it is not known."]
    whole = get_time_basis(trace)
    idle = f"The device is idle for {format_bounded(_format_share(launched.idle_s, trace.step_s), launched.idle_bound)} {whole}"
    if launched.starved_s is None:
        lines = [f"{idle}; whether anything was queued meanwhile is not known."]
    else:
        lines = [
            f"{idle}, {_format_share(launched.starved_s, trace.step_s)} of it with nothing queued{_describe_lateness(launched)}."
        ]
    if launched.delay_s is not None:
        tenth = launched.delay_p90_s
        late = "" if tenth is None else f" (median; one in ten after {units.format_seconds(tenth)})"
        lines.append(f"A kernel starts {units.format_seconds(launched.delay_s)} after its launch{late}.")
    if launched.queue_depth is not None:
        depth = format_count(launched.queue_depth)
        queued = "no other is queued" if launched.queue_depth < 1 else f"{depth} more are queued"
        lines.append(f"When a kernel starts, {queued} (median).")
    if launched.short_kernels > 0:
        lines.append(
            f"{format_count(launched.short_kernels)} of {format_count(launched.kernels)} kernels {whole} take less "
            f"than {launched.short_below_s * 1e6:g} us; they run for {units.format_seconds(launched.short_s)}, and the device "
            f"is idle for {units.format_seconds(launched.short_gap_s)} right before them."
        )
    if launched.sync_calls > 0:
        lines.append(
            f"Calls that make the host wait for the device: {format_count(launched.sync_calls)} {whole}, "
            f"{units.format_seconds(launched.sync_s)}."
        )
    if launched.graph_launches > 0:
        lines.append(f"{format_count(launched.graph_launches)} launches {whole} start a whole CUDA graph.")
    return lines + ([format_sentence(launched.note)] if launched.note else [])


def _describe_lateness(launched: Launches) -> str:
    """Where launches follow each other, one that comes after the device is done is late; what else is told apart."""
    if not launched.late_s or not launched.starved_s:
        return ""
    much = "" if launched.late_s > 0.99 * launched.starved_s else f" for {units.format_seconds(launched.late_s)}"
    return f": the host was late{much}"


def describe_overlap(trace: RankTrace) -> list[str]:
    """What of communication and copies is hidden behind computing."""
    beside, lines = trace.overlap, []
    for name, total, exposed, everywhere in (
        ("Communication", beside.communication_s, beside.exposed_communication_s, beside.all_communication_s),
        ("Copies", beside.copies_s, beside.exposed_copies_s, beside.all_copies_s),
    ):
        verb = "takes" if name == "Communication" else "take"
        in_steps = total * max(len(trace.steps), 1)
        if total > 0:
            lines.append(
                f"{name} {verb} {_format_share(total, trace.step_s)} {get_time_basis(trace)}; "
                f"{_format_share(exposed, total)} of that is exposed"
                + ("." if exposed >= total else ", the rest runs beside computing.")
            )
        if everywhere - in_steps > _OUTSIDE * everywhere:
            lines.append(
                f"In the whole trace {name.lower()} {verb} {units.format_seconds(everywhere)}, "
                f"{units.format_seconds(everywhere - in_steps)} of it outside of the steps."
            )
    return lines


def describe_recompute(trace: RankTrace) -> str:
    """What activation checkpointing runs again; empty where nothing is."""
    again = trace.recompute
    if again is None:
        return ""
    cost = f"{_format_share(again.seconds, trace.step_s)} and {units.format_flops(again.flops)} {get_time_basis(trace)}"
    return f"Checkpointing runs {format_count(again.ops)} forward ops again in backward, {cost}; they count for HFU, not for MFU."


def describe_coverage(trace: RankTrace) -> str:
    """What of the kernel time is explained."""
    covered = trace.coverage
    if covered.kernel_s <= 0:
        return "The trace holds no kernels and no ops."
    what = "ops" if trace.device == "cpu" else "kernels"

    def share(part: float) -> str:
        return units.format_percent(part / covered.kernel_s)

    counted = f", {share(covered.counted_s)} counted by hardware" if covered.counted_s > 0 else ""
    above = (
        f" {_format_share(covered.above_roof_s, covered.kernel_s)} came out above a roof, which no device can do: "
        "a ceiling or the model of its cost is wrong."
        if covered.above_roof_s > 0
        else ""
    )
    if trace.unseen_device:
        return (
            f"{units.format_seconds(covered.kernel_s)} in {format_plural(covered.kernels, 'op')} of the host is what was recorded; "
            "the work that these started was not, so that nothing of its time is explained."
        )
    inferred = f"{share(covered.inferred_s)} equals kernels of known ops, " if covered.inferred_s > 0 else ""
    linked = "" if trace.device == "cpu" else f"{share(covered.linked_s)} is linked to an op, {inferred}"
    return (
        f"Of {units.format_seconds(covered.kernel_s)} in {format_plural(covered.kernels, what[:-1])} of the whole trace, {linked}"
        f"{share(covered.flops_s)} has FLOPs and {share(covered.bytes_s)} has bytes{counted}"
        + (f"; {share(covered.bounded_s)} as bounds" if covered.bounded_s > 0 else "")
        + (f"; of {share(covered.estimated_s)} bytes are estimated from arguments" if covered.estimated_s > 0 else "")
        + f".{_describe_joined(covered)}{above}"
    )


def _describe_joined(covered: Coverage) -> str:
    if not covered.replayed_kernels:
        return ""
    of = f"{covered.joined_kernels:,} of {format_plural(covered.replayed_kernels, 'kernel')} that graphs replayed"
    return f" Joined from capture: {of}."


def describe_utilization(trace: RankTrace) -> str:
    """What MFU is relative to, or why it is not known."""
    mfu = trace.mfu
    if isinstance(mfu, Unknown):
        return f"MFU is not known: {mfu.reason}."
    return f"MFU is {format_bounded(units.format_percent(mfu.value), mfu.bound)}, {mfu.how.value}: {mfu.source}."


def describe_fleet(job: Fleet) -> list[str]:
    """Who is late, and by how much."""
    lines = []
    if job.straggler:
        late = next((row.late_s for row in job.ranks if row.label == job.straggler), None)
        by = "" if late is None else f", {units.format_seconds(late)} a step after the first rank"
        lines.append(f"Straggler: {job.straggler}{by}.")
    if job.step_spread is not None:
        lines.append(f"Step times of the ranks differ by {units.format_percent(job.step_spread)}.")
    return lines + [format_sentence(note) for note in job.notes]


def describe_reading(trace: RankTrace) -> str:
    """How a trace lies on disk and what it holds."""
    file = trace.reading
    size = units.format_bytes(file.file_bytes)
    if file.json_bytes != file.file_bytes:
        size += f", {units.format_bytes(file.json_bytes)} uncompressed"
    outside = f"; {units.format_seconds(trace.outside_s)} lie outside of its steps" if trace.outside_s > 0 else ""
    return f"{format_plural(file.events, 'event')} in {size}, {units.format_seconds(trace.span_s)} long{outside}"
