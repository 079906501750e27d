"""The rule about a step that waits for its data: as its timed steps did, where that is known, else as it was traced."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from perfkit.analysis.findings.trace.calls import calls_of, idle_of, shown_calls
from perfkit.analysis.findings.trace.change import leave_out
from perfkit.analysis.findings.trace.lines import in_data
from perfkit.analysis.findings.trace.thresholds import COMMON, NOTABLE
from perfkit.analysis.findings.trace.view import CPU, FETCHING, Told, TraceView, called
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.launches import HostCallRow
from perfkit.analysis.model.loop import Loop
from perfkit.analysis.model.time_split import DATA
from perfkit.analysis.trace.host_calls import FETCH
from perfkit.units import percent, seconds

_TITLE = "The step waits for its data"
LOAD_SOONER = (
    "Raise num_workers and prefetch_factor of the DataLoader, with persistent_workers=True (and pin_memory=True for a "
    "GPU), so that batches are made in other processes; make what is done to each sample cheaper, or do it once before."
)


def starved(view: TraceView) -> Iterator[Told]:
    """The loop waits for a batch; where a device was traced, as far as it is idle meanwhile."""
    rows = calls_of(view, FETCH)
    idle = idle_of(rows)
    if view.loop is not None and view.step_s is not None and view.loop.data_wait_share is not None:
        meanwhile = None if view.trace.device == CPU else (idle or 0.0) * view.pace
        finding = timed_wait(view.loop, view.step_s, view.trace.label, meanwhile)
        if finding is not None:
            scope = frozenset() if meanwhile is None else frozenset((FETCHING,))
            finding = replace(finding, ops=called(rows), idle=(DATA,) if idle else ())
            yield Told(view.as_traced(finding), scope, leave_out(FETCHING))
        return
    if view.data_wait_share is not None:
        yield from _timed(view, rows, idle)
        return
    took = idle if idle is not None else sum(row.seconds for row in rows)
    if rows and view.share(took) >= NOTABLE:
        what = "the device is idle for" if idle is not None else "it takes"
        yield view.gain(
            _TITLE,
            f"{what} {view.took(took)} meanwhile: {shown_calls(rows)}",
            LOAD_SOONER,
            took,
            scope=() if idle is None else (FETCHING,),
            change=leave_out(FETCHING),
            calls=rows,
            idle=() if idle is None else (DATA,),
        )


def _timed(view: TraceView, rows: Sequence[HostCallRow], idle_s: float | None) -> Iterator[Told]:
    """What timed steps of a workload with a DataLoader waited. Traced steps wait less: workers go on between passes."""
    share = view.data_wait_share or 0.0
    took = share * view.trace.step_s
    gain_s = took if idle_s is None else min(took, idle_s)
    if view.share(gain_s) >= COMMON:
        meanwhile = "" if idle_s is None else f"; as traced the device is then idle for {view.took(idle_s)}"
        yield view.gain(
            f"{_TITLE}, {percent(share, 0)} of the time",
            f"{percent(share)} of the timed steps in next() of its DataLoader{meanwhile}",
            LOAD_SOONER,
            gain_s,
            scope=() if idle_s is None else (FETCHING,),
            change=leave_out(FETCHING),
            calls=rows,
            idle=() if idle_s is None else (DATA,),
        )


def timed_wait(loop: Loop, step_s: float, owner: str, idle_s: float | None) -> Finding | None:
    """What timed steps of `step_s` waited, if that is worth telling.

    `idle_s` is how long a device was idle meanwhile, since work queued before may go on; None where none was traced.
    """
    if loop.data_wait_mean_s is None or loop.data_wait_share is None:
        return None
    gain_s = loop.data_wait_mean_s if idle_s is None else min(loop.data_wait_mean_s, idle_s)
    if gain_s < COMMON * step_s:
        return None
    meanwhile = "" if idle_s is None else f"; as traced the device is then idle for {seconds(idle_s)} a step"
    return Finding(
        severity="gain",
        title=f"{_TITLE}, {percent(loop.data_wait_share, 0)} of the time",
        variant=owner,
        evidence=f"{seconds(loop.data_wait_mean_s)} a step on average in next() of its DataLoaders{_worst(loop)}, "
        f"{seconds(loop.data_wait_s or 0.0)} in the median step{meanwhile}{in_data(loop)}",
        action=LOAD_SOONER,
        gain_s=gain_s,
    )


def _worst(loop: Loop) -> str:
    waiting = [rank for rank in loop.ranks if rank.data_wait_share is not None]
    if len(waiting) < 2:
        return ""
    worst = max(waiting, key=lambda rank: rank.data_wait_share or 0.0)
    return f" on rank {worst.rank}, which waits most"
