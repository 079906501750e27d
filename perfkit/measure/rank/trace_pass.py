"""The trace pass of a run, once more where the profiler lost kernels."""

from pathlib import Path

from msgspec.structs import replace

from perfkit.instruments.lost_kernels import KernelCount, list_remarks
from perfkit.instruments.recording import drive_recording
from perfkit.instruments.trace_recording import RecordedTrace, count_lead_steps, record_trace
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
    session.recorder.update(warnings=(*session.recorder.record.warnings, *remarks))


def _record_trace(session: TrainingSession, path: Path) -> RecordedTrace:
    device, steps = session.state.device, session.round_to_cycles(session.spec.schedule.trace)
    session.data.rewind(session.next_step)
    recording = record_trace(steps, path, device=device, lead=count_lead_steps(device))
    return drive_recording(recording, session.step, session.next_step)


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
