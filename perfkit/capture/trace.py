"""Recording steps with torch.profiler."""

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from perfkit.capture.clock import Step


def trace_steps(step: Step, first: int, count: int, path: Path, *, device: torch.device) -> None:
    """Profile `count` steps, with the shapes of inputs, and write the Chrome trace (gzip) to `path`, atomically."""
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    with profile(activities=activities, record_shapes=True) as profiler:
        for index in range(first, first + count):
            step(index)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    _export(profiler.export_chrome_trace, path)


def _export(export: Callable[[str], None], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # torch compresses by the name's ending, so the temporary name keeps it.
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        export(str(temporary))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
