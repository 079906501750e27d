"""What a trace tells about launches, overlap, coverage and ranks, in sentences with numbers."""

from perfkit import units
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.model.trace import Launches, RankTrace
from perfkit.record import Unknown
from perfkit_reports.cells import count
from perfkit_reports.wording import bounded, plural, sentence, signed_seconds

# Of communication or copies: from here on what lies outside of the steps is told.
_OUTSIDE = 0.01


def _share(part: float, whole: float) -> str:
    return f"{units.seconds(part)} ({units.percent(part / whole)})" if whole > 0 else units.seconds(part)


def per(trace: RankTrace) -> str:
    """What the seconds are of: `a step`, or `total`."""
    return "a step" if trace.steps else "total"


def launches(trace: RankTrace) -> list[str]:
    """How well the host feeds the device, or why that is not known."""
    found = trace.launches
    if trace.unseen_device:
        return ["Nothing of the device was recorded, so how the host feeds it is not known."]
    if found is None and trace.device == "cpu":
        return ["On a CPU nothing is launched: ops run as they are called."]
    if found is None:
        return ["The trace holds no launches, so how the host feeds the device is not known."]
    each = per(trace)
    idle = f"The device is idle for {bounded(_share(found.idle_s, trace.step_s), found.idle_bound)} {each}"
    if found.starved_s is None:
        lines = [f"{idle}; whether anything was queued meanwhile is not known."]
    else:
        lines = [f"{idle}, {_share(found.starved_s, trace.step_s)} of it with nothing queued{_late(found)}."]
    if found.delay_s is not None:
        late = "" if found.delay_p90_s is None else f" (median; one in ten after {units.seconds(found.delay_p90_s)})"
        lines.append(f"A kernel starts {units.seconds(found.delay_s)} after its launch{late}.")
    if found.queue_depth is not None:
        depth = count(found.queue_depth)
        queued = "no other is queued" if found.queue_depth < 1 else f"{depth} more are queued"
        lines.append(f"When a kernel starts, {queued} (median).")
    if found.short_kernels > 0:
        lines.append(
            f"{count(found.short_kernels)} of {count(found.kernels)} kernels {each} take less "
            f"than {found.short_below_s * 1e6:g} us; they run for {units.seconds(found.short_s)}, and the device "
            f"is idle for {units.seconds(found.short_gap_s)} right before them."
        )
    if found.sync_calls > 0:
        lines.append(
            f"Calls that make the host wait for the device: {count(found.sync_calls)} {each}, "
            f"{units.seconds(found.sync_s)}."
        )
    if found.graph_launches > 0:
        lines.append(f"{count(found.graph_launches)} launches {each} start a whole CUDA graph.")
    return lines + ([sentence(found.note)] if found.note else [])


def _late(found: Launches) -> str:
    """Where launches follow each other, one that comes after the device is done is late; what else is told apart."""
    if not found.late_s or not found.starved_s:
        return ""
    much = "" if found.late_s > 0.99 * found.starved_s else f" for {units.seconds(found.late_s)}"
    return f": the host was late{much}"


def overlap(trace: RankTrace) -> list[str]:
    """What of communication and copies is hidden behind computing."""
    found, lines = trace.overlap, []
    for name, total, exposed, everywhere in (
        ("Communication", found.communication_s, found.exposed_communication_s, found.all_communication_s),
        ("Copies", found.copies_s, found.exposed_copies_s, found.all_copies_s),
    ):
        verb = "takes" if name == "Communication" else "take"
        in_steps = total * max(len(trace.steps), 1)
        if total > 0:
            lines.append(
                f"{name} {verb} {_share(total, trace.step_s)} {per(trace)}; "
                f"{_share(exposed, total)} of that is exposed"
                + ("." if exposed >= total else ", the rest runs beside computing.")
            )
        if everywhere - in_steps > _OUTSIDE * everywhere:
            lines.append(
                f"In the whole trace {name.lower()} {verb} {units.seconds(everywhere)}, "
                f"{units.seconds(everywhere - in_steps)} of it outside of the steps."
            )
    return lines


def recompute(trace: RankTrace) -> str:
    """What activation checkpointing runs again; empty where nothing is."""
    found = trace.recompute
    if found is None:
        return ""
    cost = f"{_share(found.seconds, trace.step_s)} and {units.flops(found.flops)} {per(trace)}"
    return (
        f"Checkpointing runs {count(found.ops)} forward ops again in backward, {cost}; they count for HFU, not for MFU."
    )


def coverage(trace: RankTrace) -> str:
    """What of the kernel time is explained."""
    found = trace.coverage
    if found.kernel_s <= 0:
        return "The trace holds no kernels and no ops."
    what = "ops" if trace.device == "cpu" else "kernels"

    def share(part: float) -> str:
        return units.percent(part / found.kernel_s)

    counted = f", {share(found.counted_s)} counted by hardware" if found.counted_s > 0 else ""
    above = (
        f" {_share(found.above_roof_s, found.kernel_s)} came out above a roof, which no device can do: "
        "the model of its cost is wrong."
        if found.above_roof_s > 0
        else ""
    )
    if trace.unseen_device:
        return (
            f"{units.seconds(found.kernel_s)} in {plural(found.kernels, 'op')} of the host is what was recorded; "
            "the work that these started was not, so that nothing of its time is explained."
        )
    inferred = f"{share(found.inferred_s)} equals kernels of known ops, " if found.inferred_s > 0 else ""
    linked = "" if trace.device == "cpu" else f"{share(found.linked_s)} is linked to an op, {inferred}"
    return (
        f"Of {units.seconds(found.kernel_s)} in {plural(found.kernels, what[:-1])} of the whole trace, {linked}"
        f"{share(found.flops_s)} has FLOPs and {share(found.bytes_s)} has bytes{counted}"
        + (f"; {share(found.bounded_s)} as bounds" if found.bounded_s > 0 else "")
        + (f"; of {share(found.estimated_s)} bytes are estimated from arguments" if found.estimated_s > 0 else "")
        + f".{above}"
    )


def utilisation(trace: RankTrace) -> str:
    """What MFU is relative to, or why it is not known."""
    mfu = trace.mfu
    if isinstance(mfu, Unknown):
        return f"MFU is not known: {mfu.reason}."
    return f"MFU is {bounded(units.percent(mfu.value), mfu.bound)}, {mfu.how.value}: {mfu.source}."


def fleet(found: Fleet) -> list[str]:
    """Who is late, and by how much."""
    lines = []
    if found.straggler:
        late = next((row.late_s for row in found.ranks if row.label == found.straggler), None)
        by = "" if late is None else f", {units.seconds(late)} a step after the first rank"
        lines.append(f"Straggler: {found.straggler}{by}.")
    if found.step_spread is not None:
        lines.append(f"Step times of the ranks differ by {units.percent(found.step_spread)}.")
    return lines + [sentence(note) for note in found.notes]


def difference(found: TraceDifference) -> list[str]:
    """The total, and what makes the two hard to compare."""
    change = found.after_step_s - found.before_step_s
    total = (
        f"{found.after} against {found.before}: {units.seconds(found.before_step_s)} became "
        f"{units.seconds(found.after_step_s)}, {signed_seconds(change)} a step."
    )
    return [total, *(sentence(note) for note in found.notes)]


def reading(trace: RankTrace) -> str:
    """How a trace lies on disk and what it holds."""
    found = trace.reading
    size = units.nbytes(found.file_bytes)
    if found.json_bytes != found.file_bytes:
        size += f", {units.nbytes(found.json_bytes)} uncompressed"
    outside = f"; {units.seconds(trace.outside_s)} lie outside of its steps" if trace.outside_s > 0 else ""
    return f"{plural(found.events, 'event')} in {size}, {units.seconds(trace.span_s)} long{outside}"
