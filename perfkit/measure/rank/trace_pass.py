"""The trace pass of a run, once more where the profiler lost kernels."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from perfkit.core.errors import UnavailableError
from perfkit.core.note import make_note
from perfkit.instruments.clock import get_step_times
from perfkit.instruments.lost_kernels import KernelCount, list_remarks
from perfkit.instruments.pm_sampling import LOCKED_CLOCKS, start_sampling
from perfkit.instruments.profiler_backend import KINETO, mark_failed
from perfkit.instruments.recording import drive_recording
from perfkit.instruments.trace_recording import (
    MonitorError,
    RecordedTrace,
    count_lead_steps,
    record_trace,
)
from perfkit.measure.rank.session import TrainingSession
from perfkit.store.layout import TRACE_FILE


def run_trace_pass(session: TrainingSession) -> None:
    """A few steps under torch.profiler with shapes.

    Where a rank lost more kernels than figures bear (a first recording may even hold none at all, DeepGEMM#426), all
    ranks trace once more, and keep that trace if it is no worse on any of them: those of one run are of the same steps.
    """
    path = session.recorder.folder / TRACE_FILE
    trace = _record_trace(session, path)
    repeated = not session.agree(not _has_lost_kernels(trace))
    remarks = list_remarks(trace.kernels, trace.session)
    if repeated:
        session.step(session.next_step)  # between two profilers
        second = path.with_name(f"again-{path.name}")
        try:
            again = _record_trace(session, second)
            if session.agree(_get_lost_share(again.kernels) <= _get_lost_share(trace.kernels)):
                second.replace(path)
                trace = again
        finally:
            second.unlink(missing_ok=True)
        remarks = [
            replace(remark, text=f"{remark}; the better of two passes is kept")
            for remark in list_remarks(trace.kernels, trace.session)
        ]
    session.recorder.add_facts(_build_facts(trace.kernels, repeated))
    session.recorder.update(trace_backend=trace.backend.name, trace_backend_reason=trace.backend.reason)
    session.recorder.update(warnings=(*session.recorder.record.warnings, *remarks))


def _record_trace(session: TrainingSession, path: Path) -> RecordedTrace:
    """Record; once more with Kineto on all ranks where CUPTI's monitor wrote nothing on one."""
    monitor = _start_sampling(session) if session.spec.pm_sampling else None
    try:
        trace = _record_trace_once(session, path, monitor)
    except MonitorError as error:
        session.recorder.warn(make_note("recording.monitor_failed", str(error)))
        trace = None
    if trace is not None and trace.backend.name == KINETO:
        return trace  # ranks of one environment have one recorder
    if session.agree(trace is not None):
        assert trace is not None
        return trace
    if trace is not None:
        mark_failed("it wrote no trace on another rank")
    session.step(session.next_step)  # between two profilers
    return _record_trace_once(session, path, None)


def _record_trace_once(session: TrainingSession, path: Path, monitor: Mapping[str, Any] | None) -> RecordedTrace:
    device, steps = session.state.device, session.round_to_cycles(session.spec.schedule.trace)
    session.data.rewind(session.next_step)
    recording = record_trace(steps, path, device=device, lead=count_lead_steps(device), monitor=monitor)
    return drive_recording(recording, session.step, session.next_step)


def _start_sampling(session: TrainingSession) -> Mapping[str, Any] | None:
    """The monitor's options for samples of the performance monitors; None where they cannot be read, with a warning."""
    device = session.state.device
    steps = session.round_to_cycles(session.spec.schedule.trace) + count_lead_steps(device)
    step_s = median(get_step_times(session.recorder.record.samples))
    try:
        options = start_sampling(device, steps * step_s)
    except UnavailableError as error:
        session.recorder.warn(make_note("recording.no_counters", f"no counters were sampled: {error}"))
        return None
    session.recorder.warn(make_note("recording.locked_clocks", LOCKED_CLOCKS))
    return options


def _has_lost_kernels(trace: RecordedTrace) -> bool:
    return trace.kernels is not None and trace.kernels.too_many


def _get_lost_share(count: KernelCount | None) -> float:
    """The share of lost kernels; 0 where unknown."""
    return 0.0 if count is None else count.share


def _build_facts(count: KernelCount | None, repeated: bool) -> dict[str, float]:
    if count is None:
        return {}
    return {
        "traced_kernels_launched": float(count.launched),
        "traced_kernels_lost": float(count.lost),
        "trace_passes": 2.0 if repeated else 1.0,
    }
