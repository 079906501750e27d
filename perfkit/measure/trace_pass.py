"""The trace pass of a run, once more where the profiler lost kernels."""

from pathlib import Path

from perfkit.instruments.lost_kernels import KernelCount, remarks
from perfkit.instruments.recording import drive
from perfkit.instruments.trace import Traced, lead_steps, traced
from perfkit.measure.session import Session
from perfkit.store.layout import TRACE_FILE


def trace_pass(session: Session) -> None:
    """A few steps under torch.profiler with shapes.

    Where a rank lost more kernels than figures bear (a first recording may even hold none at all, DeepGEMM#426), all
    ranks trace once more, and keep that trace if it is no worse on any of them: those of one run are of the same steps.
    """
    path = session.recorder.folder / TRACE_FILE
    trace = _trace(session, path)
    repeated = not session.agree(not _lost(trace))
    said = remarks(trace.kernels, trace.session)
    if repeated:
        session.step(session.next_step)  # between two profilers
        second = path.with_name(f"again-{path.name}")
        try:
            again = _trace(session, second)
            if session.agree(_share(again.kernels) <= _share(trace.kernels)):
                second.replace(path)
                trace = again
        finally:
            second.unlink(missing_ok=True)
        said = [f"{remark}; that was the better of two passes" for remark in remarks(trace.kernels, trace.session)]
    session.recorder.add_facts(_facts(trace.kernels, repeated))
    session.recorder.update(warnings=(*session.recorder.record.warnings, *said))


def _trace(session: Session, path: Path) -> Traced:
    device, steps = session.state.device, session.round_to_cycles(session.spec.schedule.trace)
    recording = traced(steps, path, device=device, lead=lead_steps(device))
    return drive(recording, session.step, session.next_step)


def _lost(trace: Traced) -> bool:
    return trace.kernels is not None and trace.kernels.too_many


def _share(count: KernelCount | None) -> float:
    """Where nothing tells, nothing is known to be lost."""
    return 0.0 if count is None else count.share


def _facts(count: KernelCount | None, repeated: bool) -> dict[str, float]:
    if count is None:
        return {}
    return {
        "traced_kernels_launched": float(count.launched),
        "traced_kernels_lost": float(count.lost),
        "trace_passes": 2.0 if repeated else 1.0,
    }
