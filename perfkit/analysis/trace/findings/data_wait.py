"""The rule about data waits, from timed steps where there are any, else from the trace."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from perfkit.analysis.findings.change import leave_out
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.finding import Finding, GainRange
from perfkit.analysis.model.launches import HostCallRow
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.time_split import DATA
from perfkit.analysis.trace.findings.host_calls import format_calls, select_calls, sum_idle_s
from perfkit.analysis.trace.findings.program_lines import name_data_lines
from perfkit.analysis.trace.findings.remedies import LOAD_SOONER, choose_remedy
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, NOTABLE
from perfkit.analysis.trace.findings.trace_view import FETCHING, TraceView, list_callers
from perfkit.analysis.trace.idle.host_calls import FETCH
from perfkit.core.units import format_percent, format_seconds
from perfkit.devices.accelerator import is_cpu
from perfkit.trace.frameworks import TORCH

_TITLE = "Step waits for data"


def find_data_wait(view: TraceView) -> Iterator[RuleResult]:
    """The loop waits for a batch; where a device was traced, only its idle time meanwhile counts."""
    rows = select_calls(view, FETCH)
    idle = sum_idle_s(rows)
    if view.loop is not None and view.step_s is not None and view.loop.data_wait_share is not None:
        meanwhile = None if is_cpu(view.trace.device) else (idle or 0.0) * view.pace
        finding = find_loop_data_wait(view.loop, view.step_s, view.trace.label, meanwhile)
        if finding is not None:
            scope = frozenset() if meanwhile is None else frozenset((FETCHING,))
            finding = replace(finding, ops=list_callers(rows), idle_causes=(DATA,) if idle else ())
            if meanwhile is None:  # all of the wait may go, of which a trace shows another part
                timed = GainRange(unit="s", low=0.0, high=finding.gain_s, basis="bound")
                finding = replace(finding, gains=(timed,))
            yield RuleResult(view.scale_to_traced(finding), scope, leave_out(FETCHING))
        return
    if view.data_wait_share is not None:
        yield from _find_timed_wait(view, rows, idle)
        return
    took = idle if idle is not None else sum(row.seconds for row in rows)
    if rows and view.get_share(took) >= NOTABLE:
        yield view.build_gain(
            "data.starved",
            _TITLE,
            f"{'device idle for ' if idle is not None else ''}{view.show_time(took)} in {format_calls(rows)}",
            view.advise(LOAD_SOONER),
            took,
            scope=() if idle is None else (FETCHING,),
            change=leave_out(FETCHING),
            calls=rows,
            idle=() if idle is None else (DATA,),
            figures={"wait_s": took},
        )


def _find_timed_wait(view: TraceView, rows: Sequence[HostCallRow], idle_s: float | None) -> Iterator[RuleResult]:
    """The wait in timed steps of a workload with a DataLoader. Traced steps wait less: workers go on between passes."""
    share = view.data_wait_share or 0.0
    took = share * view.trace.step_s
    gain_s = took if idle_s is None else min(took, idle_s)
    if view.get_share(gain_s) >= COMMON:
        meanwhile = "" if idle_s is None else f"; traced device idle time {view.show_time(idle_s)}"
        yield view.build_gain(
            "data.starved",
            f"{_TITLE}: {format_percent(share, 0)} of the time",
            f"{format_percent(share)} of timed steps in DataLoader next(){meanwhile}",
            view.advise(LOAD_SOONER),
            gain_s,
            scope=() if idle_s is None else (FETCHING,),
            change=leave_out(FETCHING),
            calls=rows,
            idle=() if idle_s is None else (DATA,),
            figures={"wait_s": took, "share": share} | ({} if idle_s is None else {"idle_s": idle_s}),
        )


def find_loop_data_wait(loop: LoopAnalysis, step_s: float, owner: str, idle_s: float | None) -> Finding | None:
    """The wait in timed steps of `step_s`, if it is worth a finding.

    `idle_s` is how long a device was idle meanwhile, since queued work may go on; None where none was traced.
    """
    if loop.data_wait_mean_s is None or loop.data_wait_share is None:
        return None
    gain_s = loop.data_wait_mean_s if idle_s is None else min(loop.data_wait_mean_s, idle_s)
    if gain_s < COMMON * step_s:
        return None
    meanwhile = "" if idle_s is None else f"; traced device idle time {format_seconds(idle_s)} per step"
    return Finding(
        id="data.starved",
        severity="gain",
        title=f"{_TITLE}: {format_percent(loop.data_wait_share, 0)} of the time",
        variant=owner,
        evidence=f"mean {format_seconds(loop.data_wait_mean_s)} per step in DataLoader next(){_name_worst(loop)}, "
        f"median {format_seconds(loop.data_wait_s or 0.0)}{meanwhile}{name_data_lines(loop)}",
        action=choose_remedy(LOAD_SOONER, TORCH, "", trains=True),
        gain_s=gain_s,
        figures={"wait_s": loop.data_wait_mean_s, "share": loop.data_wait_share}
        | ({} if idle_s is None else {"idle_s": idle_s}),
    )


def _name_worst(loop: LoopAnalysis) -> str:
    waiting = [rank for rank in loop.ranks if rank.data_wait_share is not None]
    if len(waiting) < 2:
        return ""
    worst = max(waiting, key=lambda rank: rank.data_wait_share or 0.0)
    return f" on rank {worst.rank}, the worst"
