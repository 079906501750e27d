"""Measures a device's ceilings in a separate process:

    python -m perfkit.devices.calibration.calibrate --device cpu --threads 1,2 [--short] --out FILE

writes the ceilings to FILE, their repeats to FILE with the suffix `.repeats.json`, and progress to standard error, one
line per measurement.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.note import Note, make_note
from perfkit.core.spec import Struct
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.calibration.kernel_timing import KernelResults, Progress, make_wall_timer, run_kernels
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, DeviceCeilings
from perfkit.devices.ceilings.repeats import KernelRepeats, find_best_canary, summarize_repeats
from perfkit.devices.machine import machine
from perfkit.devices.machine.device_choice import CALIBRATED
from perfkit.devices.machine.fingerprint import build_fingerprint

if TYPE_CHECKING:
    from perfkit.devices.calibration.cuda_kernels import CalibratedGpu

REPEATS_VERSION = 1
_COUNTED_BYTES = "bandwidths count bytes as STREAM does: write-allocate traffic is excluded (x4/3 for a triad)"


class CalibrationRepeats(Struct):
    """The raw repeats of a calibration, from which its ceilings and their spreads follow."""

    schema_version: int = REPEATS_VERSION
    fingerprint: str
    measured_at: str
    kernels: tuple[KernelRepeats, ...]


def get_repeats_path(out: Path) -> Path:
    """The path of the repeats, next to the ceilings."""
    return out.with_suffix(".repeats.json")


def build_ceilings(kernels: Sequence[KernelRepeats]) -> list[Ceiling]:
    """The best kernel of each level, dtype and number of threads, as a measured ceiling."""
    best: dict[tuple[str, str | None, int | None], Ceiling] = {}
    for kernel in kernels:
        summary = summarize_repeats(kernel.repeats, find_best_canary(kernels, kernel.threads), kernel.level)
        ceiling = Ceiling(
            level=kernel.level,
            dtype=kernel.dtype,
            value=summary.value,
            unit=kernel.unit,
            kind=CeilingKind.MEASURED,
            source=f"{kernel.label}; best of {summary.total} repeats, {summary.kept} undisturbed",
            threads=kernel.threads,
            spread=summary.spread,
            confidence=summary.confidence,
            disturbance=summary.disturbed,
        )
        key = (kernel.level, kernel.dtype, kernel.threads)
        if key not in best or ceiling.value > best[key].value:
            best[key] = ceiling
    return list(best.values())


def calibrate_cpu(
    threads: Sequence[int], *, short: bool, progress: Progress
) -> tuple[DeviceCeilings, tuple[KernelRepeats, ...]]:
    """The measured ceilings of this CPU for each number of threads, with the repeats behind them."""
    from perfkit.devices.calibration import cpu_kernels as cpu

    pressure = machine.read_cpu_pressure()
    started = (time.process_time(), time.perf_counter())
    kernels, canaries, notes = cpu.choose_kernels(threads, short=short, progress=progress)
    outcome = run_kernels(kernels, canaries, cpu.SHORT if short else cpu.FULL, make_wall_timer(), progress)
    pressure_after = machine.read_cpu_pressure()
    measured = [cpu.reduce_confidence(ceiling, pressure, pressure_after) for ceiling in build_ceilings(outcome.kernels)]
    ceilings, implausible = cpu.filter_plausible(measured)
    derived, why_not = cpu.derive_vector_ceilings(ceilings)
    notes += [
        *outcome.failures,
        *implausible,
        *why_not,
        make_note("ceilings.counted_bytes", _COUNTED_BYTES),
        cpu.describe_load(pressure, pressure_after),
        make_note(
            "ceilings.cpu_share", f"the calibrating process got {cpu.compute_cpu_share(started):.2f} CPUs on average"
        ),
    ]
    return _build_device_ceilings("cpu", machine.read_cpu_model(), (*ceilings, *derived), notes), tuple(outcome.kernels)


def calibrate_cuda(
    *, short: bool, progress: Progress, device_name: str = ""
) -> tuple[DeviceCeilings, tuple[KernelRepeats, ...]]:
    """The measured ceilings of the CUDA device with this name, with the repeats behind them.

    Without a name it is the current device. What the device cannot do is a note, with the reason.
    """
    from perfkit.devices.calibration import cuda_kernels as cuda

    with cuda.open_device(device_name) as device:
        outcome, notes = _measure_cuda(device, short=short, progress=progress)
    ceilings = [cuda.reduce_confidence(ceiling, device) for ceiling in build_ceilings(outcome.kernels)]
    return _build_device_ceilings("cuda", device.name, tuple(ceilings), [*notes, *outcome.failures]), tuple(
        outcome.kernels
    )


def _measure_cuda(device: "CalibratedGpu", *, short: bool, progress: Progress) -> tuple[KernelResults, list[Note]]:
    """Every buffer on the device ends with this call."""
    from perfkit.devices.calibration import cuda_kernels as cuda

    timer = cuda.make_event_timer(device)
    progress(f"testing matmuls on {device.name}")
    kernels, canary, notes = cuda.choose_kernels(device, timer, short=short)
    cuda.warm_up(device, canary, short=short, progress=progress)
    return run_kernels(
        kernels, {None: canary}, cuda.choose_effort(short=short), timer, progress, cuda.release_memory
    ), notes


def _build_device_ceilings(
    device: str, name: str, ceilings: tuple[Ceiling, ...], notes: Sequence[Note]
) -> DeviceCeilings:
    return DeviceCeilings(
        device=device,
        device_name=name,
        fingerprint=build_fingerprint(device, name),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        ceilings=ceilings,
        notes=tuple(dict.fromkeys(notes)),
    )


def parse_threads(text: str) -> tuple[int, ...]:
    """`"1,2"` -> (1, 2); a `UsageError` for anything but positive whole numbers."""
    try:
        counts = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UsageError(f"--threads {text!r}: expected positive whole numbers separated by commas, such as 1,2")
    return counts


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m perfkit.devices.calibration.calibrate", description="Measure a device's ceilings."
    )
    parser.add_argument("--device", choices=CALIBRATED, required=True)
    parser.add_argument("--device-name", default="", help="GPU to measure, by the name that torch reports")
    parser.add_argument("--threads", default="1", help="CPU thread counts to measure with, such as 1,2")
    parser.add_argument("--short", action="store_true", help="fewer windows and sizes: at most 15 s per thread count")
    parser.add_argument("--out", type=Path, required=True, help="file to write the ceilings to (JSON)")
    options = parser.parse_args(arguments)
    try:
        threads = parse_threads(options.threads)
    except UsageError as error:
        parser.error(str(error))

    def progress(line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    if is_cpu(options.device):
        measured, kernels = calibrate_cpu(threads, short=options.short, progress=progress)
    else:
        measured, kernels = calibrate_cuda(short=options.short, progress=progress, device_name=options.device_name)
    write_json(
        get_repeats_path(options.out),
        CalibrationRepeats(fingerprint=measured.fingerprint, measured_at=measured.measured_at, kernels=kernels),
    )
    write_json(options.out, measured)


if __name__ == "__main__":
    main()
