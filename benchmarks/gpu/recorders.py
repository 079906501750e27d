"""A loop recorded by CUPTI's monitor, with and without samples of the performance monitors, and by Kineto.

    python -m benchmarks.gpu.recorders --device cuda

One process records the same steps of a loop of transformer layers with each, as perfkit's trace pass does, and analyzes
the traces. The monitor needs torch 2.14, the package `cupti-python` and CUPTI 13.3.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.loops import build_loop
from benchmarks.gpu.rows import Found, Row, Setting, Skipped, main

if TYPE_CHECKING:
    import torch

    from benchmarks.attach_overhead import Trained
    from perfkit.analysis.model.trace import RankTrace

STEP_S = 0.02
STEPS = 3
NEAR = 0.05  # between the kernel times of two recordings
MONITOR, SAMPLED, KINETO = "monitor", "sampled", "kineto"


@dataclass(frozen=True)
class Recorded:
    """What a recording has: kernels per step, their time, the shares with an op and a launch, and sampled rows."""

    kernels_per_step: float
    kernel_s: float
    linked_share: float
    lost: int
    sampled_rows: int


def compare_recorders(setting: Setting) -> Found:
    """Record with each, the monitor first: Kineto keeps CUPTI from it."""
    setting.needs_gpu()
    setting.needs_perfkit()
    import torch

    from perfkit.core.errors import UnavailableError
    from perfkit.instruments.pm_sampling import start_sampling
    from perfkit.instruments.profiler_backend import explain_missing_monitor

    reason = explain_missing_monitor()
    if reason:
        raise Skipped(reason)
    device = torch.device("cuda", torch.cuda.current_device())
    trained = build_loop("cuda", STEP_S)
    recorded = {MONITOR: _record(trained, device, setting.folder / MONITOR, {})}
    refused = ""
    try:
        options = start_sampling(device, STEP_S * (STEPS + 1))
    except UnavailableError as error:
        refused = str(error)
    else:
        recorded[SAMPLED] = _record(trained, device, setting.folder / SAMPLED, options)
    recorded[KINETO] = _record(trained, device, setting.folder / KINETO, None)
    return judge_recordings(recorded, refused)


def judge_recordings(recorded: Mapping[str, Recorded], refused: str = "") -> Found:
    """What the recordings have, and where they differ; `refused` is why nothing was sampled."""
    lines = [
        f"{name}: {each.kernels_per_step:g} kernels a step, {each.kernel_s * 1e3:.2f} ms, {each.linked_share:.1%} with "
        f"an op, {each.lost} lost, {each.sampled_rows} sampled rows"
        for name, each in recorded.items()
    ]
    wrong = [refused] if refused else []
    monitor, kineto = recorded[MONITOR], recorded[KINETO]
    if monitor.kernels_per_step != kineto.kernels_per_step:
        wrong.append(
            f"{monitor.kernels_per_step:g} kernels a step by the monitor, {kineto.kernels_per_step:g} by Kineto"
        )
    if not kineto.kernel_s or abs(monitor.kernel_s / kineto.kernel_s - 1) > NEAR:
        wrong.append(f"{monitor.kernel_s:.4f} s of kernels by the monitor, {kineto.kernel_s:.4f} s by Kineto")
    if monitor.lost > kineto.lost:
        wrong.append(f"the monitor lost {monitor.lost} kernels, Kineto {kineto.lost}")
    if monitor.linked_share < kineto.linked_share - 0.01:
        wrong.append(
            f"{monitor.linked_share:.1%} of kernel time has an op by the monitor, {kineto.linked_share:.1%} by Kineto"
        )
    if SAMPLED in recorded and not recorded[SAMPLED].sampled_rows:
        wrong.append("the trace has no samples of the performance monitors")
    return Found({name: asdict(each) for name, each in recorded.items()}, lines, wrong)


def summarize(trace: "RankTrace") -> Recorded:
    """The figures of an analyzed trace."""
    coverage = trace.coverage
    return Recorded(
        kernels_per_step=trace.kernels_per_step,
        kernel_s=coverage.kernel_s,
        linked_share=coverage.linked_s / coverage.kernel_s if coverage.kernel_s else 0.0,
        lost=trace.lost_kernels.lost if trace.lost_kernels else 0,
        sampled_rows=len(trace.unit_counters),
    )


def _record(trained: "Trained", device: "torch.device", folder: Path, monitor: Mapping[str, Any] | None) -> Recorded:
    from perfkit.analysis.pipeline.trace_analysis import analyze_traces
    from perfkit.instruments.range_marks import mark_step
    from perfkit.instruments.recording import drive_recording
    from perfkit.instruments.trace_recording import record_trace

    def step(index: int) -> None:
        with mark_step(index):
            trained.step()

    path = folder / "trace.json.gz"
    drive_recording(record_trace(STEPS, path, device=device, lead=1, monitor=monitor), step, 0)
    return summarize(analyze_traces([str(path)]).traces[0])


ROWS = (Row("recorders", compare_recorders, 60, planned_s=20, basis="8 s start, three recordings; 1 s where skipped"),)

if __name__ == "__main__":
    main("recorders", __doc__, ROWS)
