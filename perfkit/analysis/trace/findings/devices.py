"""The rule about several devices of one process."""

from collections.abc import Iterator

from msgspec.structs import replace

from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.idle import OTHER_DEVICE
from perfkit.analysis.model.launches import DeviceRow
from perfkit.analysis.trace.findings.trace_thresholds import COMMON
from perfkit.analysis.trace.findings.trace_view import TURNS, TraceView
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_percent, format_seconds

_NAMED = 4  # devices
_NOT_SIMULATED = "the trace does not show which work could move to another device"


def find_turns(view: TraceView) -> Iterator[RuleResult]:
    """Devices of a process that work one after the other, or of which one has most of the work."""
    critical = next((row for row in view.trace.devices if row.critical), None)
    if critical is None:
        return
    rows = [row for row in view.trace.devices if row.process == critical.process]
    # While the critical device works or waits for another one, some device works.
    working_s = critical.busy_s + sum(part.seconds for part in critical.idle if part.category == OTHER_DEVICE)
    mean_s = sum(row.busy_s for row in rows) / len(rows)
    if len(rows) < 2 or view.get_share(working_s - mean_s) < COMMON:
        return
    busy = list_first([f"device {row.number} {_format_busy(view, row)}" for row in rows], _NAMED)
    result = view.build_gain(
        "devices.in_turn",
        f"{len(rows)} devices share the work unevenly or in turn",
        f"some device works for {view.show_time(working_s)}, each for {format_seconds(mean_s)} on average: {busy}",
        "Split the batch into microbatches, so that devices work at once (torch.distributed.pipelining), or give each "
        "device a process and an equal part of the batch (DistributedDataParallel).",
        working_s - mean_s,
        basis="upper bound: all devices equally busy, all at once",
        scope=(TURNS,),
        idle=(OTHER_DEVICE,),
        figures={"working_s": working_s, "mean_busy_s": mean_s, "devices": len(rows)},
    )
    yield result._replace(finding=replace(result.finding, not_simulated_reason=_NOT_SIMULATED))


def _format_busy(view: TraceView, row: DeviceRow) -> str:
    return f"{format_seconds(row.busy_s)} ({format_percent(view.get_share(row.busy_s), 0)})"
