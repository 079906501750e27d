"""What traces come to: a sentence, and the figures to look at first."""

from collections.abc import Iterator, Sequence

from perfkit import units
from perfkit.analysis.model import time_split
from perfkit.analysis.model.step import AT_LEAST, OUTSIDE, TimeShare
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.trace.advice import RECORD_SHAPES, how_to_get_ceilings
from perfkit.analysis.trace.host_calls import FETCH
from perfkit.analysis.trace.lost import LOST_MEANING, lost_title
from perfkit.cost.attention_mask import UNMASKED
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.record import Unknown
from perfkit_reports import cells
from perfkit_reports.document.blocks import Tile
from perfkit_reports.document.cells import Cell, unknown
from perfkit_reports.subjects.trace.costs import gain_s
from perfkit_reports.subjects.trace.series import focus
from perfkit_reports.subjects.trace.story import per
from perfkit_reports.wording import bounded

_WORDS = {
    time_split.NO_ESTIMATE: "without a FLOP or byte estimate",
    time_split.NO_CEILING: "without a known ceiling",
    time_split.COMMUNICATION: "exposed communication",
    time_split.COPIES: "exposed copies",
    time_split.DATA: "waiting for data",
}
LARGE = 0.1  # of the step: parts that are named
_NAMED = 3  # of these at most
_LEAST_GAIN = 0.01  # of the step


def headline(analysis: TraceAnalysis) -> str:
    """Step time, device, the parts that most of it goes to, and what could save most."""
    trace = focus(analysis)
    if trace is None:
        return "No trace could be read."
    subject = f"{'Step' if trace.steps else 'Trace of'} {units.seconds(trace.step_s)} on {device(trace)}"
    if trace.reading.cut:
        subject = f"Truncated trace: {subject[0].lower()}{subject[1:]}"
    fleet = analysis.fleet
    if fleet is not None and len(fleet.ranks) > 1 and fleet.straggler == trace.label:
        subject += f" ({trace.label}, the straggler of {len(fleet.ranks):,} ranks)"
    largest = sorted(parts(trace), key=lambda share: -share.share)[:_NAMED]
    large = [share for share in largest if share.share >= LARGE] or largest[:1]
    split = ", ".join(named(part, trace.time_split) for part in large)
    way, saving, much = max(_ways(trace), key=lambda each: each[1], default=("", 0.0, ""))
    sentence = f"{subject}: {split}" if split else subject
    if saving < _LEAST_GAIN * trace.step_s or saving <= 0:
        return f"{sentence}."
    return f"{sentence}; {way} could save {much} {units.seconds(saving)}."


def parts(trace: RankTrace) -> Sequence[TimeShare]:
    """The split; where no ceiling is known, whether work has an estimate makes no difference to a headline."""
    unplaced = [share for share in trace.time_split if share.category in time_split.UNPLACED]
    if not unplaced or (has_roofs(trace) and not trace.unseen_device):
        return trace.time_split
    works = "in ops that start work" if trace.unseen_device else "in ops" if trace.device == "cpu" else "in kernels"
    together = TimeShare(
        category=works,
        seconds=sum(share.seconds for share in unplaced),
        share=sum(share.share for share in unplaced),
        bound=unplaced[0].bound,
    )
    return (*(share for share in trace.time_split if share.category not in time_split.UNPLACED), together)


def named(part: TimeShare, split: Sequence[TimeShare]) -> str:
    """`at least 40 % exposed communication`, of a `split`; without a part for data, Python's holds waiting for it."""
    word = _WORDS.get(part.category, part.category)
    if word == time_split.PYTHON and not any(other.category == time_split.DATA for other in split):
        word = "Python, dispatch and waiting"
    return f"{bounded(units.percent(part.share, 0), part.bound)} {word}"


def _ways(trace: RankTrace) -> list[tuple[str, float, str]]:
    """(way, seconds that it could save, on which side of these) of what can be acted on."""
    if trace.unseen_device:
        return []
    ways = {
        time_split.DATA: "loading data sooner",
        time_split.PYTHON: "fewer ops and less Python",
        time_split.COMMUNICATION: "hiding communication",
        time_split.COPIES: "hiding copies",
    }
    known = [(ways[share.category], share.seconds, "up to") for share in trace.time_split if share.category in ways]
    waiting = sum(share.seconds for share in trace.time_split if share.category == time_split.WAITING_FOR_CPU)
    # What waits for the CPU is late launches but for what has a cause of its own.
    gaps = sum(row.seconds for row in trace.gaps)
    calls = sum(row.idle_s or 0.0 for row in trace.host_calls if row.kind != FETCH)
    known += [
        ("giving the device work in its long gaps", gaps, "up to"),
        ("not waiting for the device", calls, "up to"),
        ("launching sooner", max(0.0, waiting - gaps - calls), "up to"),
    ]
    saving = saving_s(trace) if has_roofs(trace) else None
    return known if saving is None else [*known, ("reaching the roofs", saving, _saving_bound(trace) or "up to")]


def _saving_bound(trace: RankTrace) -> str:
    return AT_LEAST if trace.lost is not None and trace.lost.matters else ""


def remarks(analysis: TraceAnalysis) -> list[str]:
    """What has to be known beside the headline."""
    trace = focus(analysis)
    if trace is None:
        return []
    lines = []
    difference = analysis.difference
    if difference is not None and difference.before_step_s > 0:
        change = units.signed_percent(difference.after_step_s / difference.before_step_s - 1)
        lines.append(
            f"Against {difference.before} the step changed by {change}: "
            f"{units.seconds(difference.before_step_s)} before, {units.seconds(difference.after_step_s)} now."
        )
    reason, _ = _no_roofline(trace)
    if reason:
        lines.append(reason)  # what to do about it is among the findings
    lost = [(each, each.lost) for each in analysis.traces if each.lost is not None and each.lost.matters]
    if lost:
        worst, most = max(lost, key=lambda each: each[1].share)
        where = (
            "" if len(analysis.traces) == 1 else f" ({worst.label}; {len(lost):,} of {len(analysis.traces):,} traces)"
        )
        lines.append(f"{lost_title(most)}{where}: {LOST_MEANING}.")
    cut = [each.label for each in analysis.traces if each.reading.cut]
    if cut:
        files = "The file" if len(analysis.traces) == 1 else "The file of " + ", ".join(cut[:_NAMED])
        more = f" and {len(cut) - _NAMED:,} more" if len(cut) > _NAMED else ""
        lines.append(f"{files}{more} is damaged or cut off: only what comes before is in these figures.")
    return lines


def device(trace: RankTrace) -> str:
    if trace.unseen_device:
        return f"the host alone ({trace.unseen_device})"
    if trace.device_name:
        return trace.device_name
    if trace.reading.cut and trace.device == "cpu":  # profilers write what ran on devices last
        return "the host, as far as the file goes"
    return {"": "an unknown device", "cpu": "a CPU"}.get(trace.device, f"a {trace.device} device that is not named")


def has_roofs(trace: RankTrace) -> bool:
    return trace.ceilings is not None and bool(trace.ceilings.ceilings)


def ceilings_of(traces: Sequence[RankTrace]) -> list[DeviceCeilings]:
    """The ceilings of each device that some traces come from; devices without any are left out."""
    known = [trace.ceilings for trace in traces if trace.ceilings is not None and trace.ceilings.ceilings]
    return list(dict.fromkeys(known))


def saving_s(trace: RankTrace) -> float | None:
    """Seconds per step above the roofs, of kernels (on a CPU: ops) with a known cost; None where none has one.

    Kernels of several streams may overlap, so that this is the most that can be saved, and never more than the step.
    """
    rows = [row for row in trace.kernels or trace.ops if row.phase != OUTSIDE]
    gains = [gain for row in rows if (gain := gain_s(row)) is not None]
    return min(sum(gains), trace.step_s) if gains else None


def without_roofline(trace: RankTrace) -> str:
    """Why there is no roofline, and what to do; empty where there is one."""
    return " ".join(filter(None, _no_roofline(trace)))


def _no_roofline(trace: RankTrace) -> tuple[str, str]:
    if trace.unseen_device:
        return "The work that was launched has no times in the trace, so there is no roofline.", ""
    if trace.points and has_roofs(trace):
        return "", ""
    if not has_roofs(trace) and trace.coverage.flops_s > 0:
        reason = f"No ceilings are known for {device(trace)}, so nothing is held against a roof."
        return reason, how_to_get_ceilings(trace)
    if trace.coverage.kernel_s <= 0:
        return "The trace holds no kernels and no ops, so there is nothing to place on a roofline.", ""
    if all(row.bound in ("communication", "copy") for row in trace.kernels or trace.ops):
        return "All of the work is communication or copies, which have no place on a roofline.", ""
    if trace.coverage.flops_s <= 0 and trace.coverage.bytes_s <= 0:
        return "No FLOPs and no bytes are known, so there is no roofline.", RECORD_SHAPES
    return "No work with both FLOPs and bytes is known, so there is no roofline.", ""


def tiles(analysis: TraceAnalysis) -> Iterator[Tile]:
    """The most important first."""
    trace = focus(analysis)
    if trace is None:
        return
    yield Tile("Step time" if trace.steps else "Length of the trace", _step(trace))
    yield Tile("Potential savings", _saving(trace))
    yield Tile("Coverage", _modelled(trace))
    yield Tile("MFU", _utilisation(trace))
    overlap, launches = trace.overlap, trace.launches
    if overlap.communication_s > 0:
        hidden = 1 - overlap.exposed_communication_s / overlap.communication_s
        detail = f"of {units.seconds(overlap.communication_s)}; {units.percent(hidden, 0)} is hidden behind computing"
        yield Tile("Exposed communication", Cell(units.seconds(overlap.exposed_communication_s), detail=detail))
    if launches is not None and trace.step_s > 0:
        detail = launches.note or "not known how much of it waits for the CPU"
        if launches.starved_s is not None:
            starved = units.seconds(launches.starved_s)
            detail = f"{units.seconds(launches.idle_s)} {per(trace)}, {starved} with nothing queued"
        idle = bounded(units.percent(launches.idle_s / trace.step_s), launches.idle_bound)
        yield Tile("Device idle", Cell(idle, detail=detail))
    if trace.memory is not None:
        yield Tile("Peak memory", Cell(units.nbytes(trace.memory.peak_bytes), detail=trace.memory.source))


def _step(trace: RankTrace) -> Cell:
    if not trace.steps:
        return Cell(units.seconds(trace.step_s), detail=trace.step_basis or "no steps were found")
    times = [step.seconds for step in trace.steps]
    spread = f", {units.seconds(min(times))} to {units.seconds(max(times))}" if len(times) > 1 else ""
    count = "one step" if len(times) == 1 else f"mean of {len(times):,} steps"
    shown = ", ".join(f"{step.number} of {units.seconds(step.seconds)}" for step in trace.unlike[:_NAMED])
    more = f" and {len(trace.unlike) - _NAMED:,} more" if len(trace.unlike) > _NAMED else ""
    without = f"; without step{'s' if len(trace.unlike) > 1 else ''} {shown}{more}" if trace.unlike else ""
    return Cell(units.seconds(trace.step_s), detail=f"{count}{spread}{without}; {trace.step_basis}")


def _saving(trace: RankTrace) -> Cell:
    if trace.unseen_device:
        return unknown("the work that was launched was not recorded")
    if not has_roofs(trace):
        return unknown("no ceilings are known for the device")
    saving = saving_s(trace)
    if saving is None:
        return unknown("no work has both a cost and a roof")
    whole = "step" if trace.steps else "trace"
    share = f"{units.percent(saving / trace.step_s, 0)} of the {whole}" if trace.step_s > 0 else ""
    text = bounded(units.seconds(saving), _saving_bound(trace))
    return Cell(text, detail=f"{share}, were every kernel at its roof".removeprefix(", "))


def _modelled(trace: RankTrace) -> Cell:
    coverage = trace.coverage
    if trace.unseen_device:
        return unknown("the work that was launched was not recorded")
    if coverage.kernel_s <= 0:
        return unknown("the trace holds no kernels and no ops")
    parts = {
        "inferred": coverage.inferred_s / coverage.kernel_s,
        "as bounds": coverage.bounded_s / coverage.kernel_s,
        "with an estimate of bytes": coverage.estimated_s / coverage.kernel_s,
    }
    return Cell(
        units.percent(coverage.flops_s / coverage.kernel_s),
        detail=f"FLOPs; {units.percent(coverage.bytes_s / coverage.kernel_s)} with bytes, "
        f"{units.percent(coverage.linked_s / coverage.kernel_s)} linked to an op"
        + "".join(f", {units.percent(share)} {what}" for what, share in parts.items() if share > 0),
    )


def _utilisation(trace: RankTrace) -> Cell:
    mfu, hfu = cells.quantity(trace.mfu), cells.quantity(trace.hfu)
    if isinstance(trace.mfu, Unknown):
        return mfu
    detail = "" if isinstance(trace.hfu, Unknown) else f"HFU {hfu.text}; "
    convention = "; counts masked pairs of attention, as PaLM does" if UNMASKED in trace.mfu.source else ""
    return Cell(mfu.text, detail=detail + trace.mfu.how.value + convention)
