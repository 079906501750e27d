"""For how long a loop stands still for its recordings, and what memory they take, on a step of many evaluations.

    python -m benchmarks.recording_pauses [--evaluations 20] [--layers 24] [--overhead 1000]

Trains a deep and narrow network with L-BFGS, so that a step has many small ops, with a budget that nothing exceeds, and
prints what the record says: for how long the loop stood still for each recording, by how
much the peak of the process's memory rose, and what of the memory recording is in which function. Run it on a quiet
machine: it is single-threaded, and half the time is of what torch does when a profiler ends.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import perfkit
from perfkit.core.spec import Schedule
from perfkit.core.units import format_bytes, format_seconds
from perfkit.instruments.memory import allocation_profiler, memory_recording
from perfkit.store.suite_reader import read_suite

WIDTH = 64
SCHEDULE = Schedule(warmup=1, max_warmup=1, timed=3, trace=3, memory=3)
STEPS = 20  # those of the schedule and those between

# What closing a memory recording calls. The first two read torch's own objects, which no other process can.
PARTS = (
    (allocation_profiler, "_disable_profiler"),
    (allocation_profiler, "_flatten"),
    (memory_recording, "other_blocks"),
    (memory_recording, "_at"),
    (memory_recording, "labels"),
    (memory_recording, "carried"),
    (memory_recording, "columns"),
)


def clocked(function: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    """`function`, whose time is added to `spent[name]`."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - began

    return timed


def train(layers: int, evaluations: int) -> None:
    torch.manual_seed(0)
    blocks = [module for _ in range(layers) for module in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    model = nn.Sequential(*blocks, nn.Linear(WIDTH, 1))
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=0.01, max_iter=evaluations, tolerance_change=0.0, tolerance_grad=0.0
    )
    inputs = torch.randn(WIDTH, WIDTH)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(inputs).square().mean()
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)  # type: ignore[arg-type]  # torch's own example


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=20)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--overhead", type=float, default=1000.0, help="of the time; so much that all is recorded")
    options = parser.parse_args()
    torch.set_num_threads(1)
    spent: dict[str, float] = {}
    for module, name in PARTS:
        setattr(module, name, clocked(getattr(module, name), name, spent))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "run"
        with perfkit.profile(folder, schedule=SCHEDULE, overhead=options.overhead, report=False):
            train(options.layers, options.evaluations)
        [run] = read_suite(folder).runs
        told = run.ranks[0].record.attached_loop
        assert told is not None
        print(*run.ranks[0].record.warnings, sep="\n")
        for name, pause_s in told.pauses_s.items():
            grown = format_bytes(told.peak_bytes[name])
            print(f"{name}: the loop stood still for {format_seconds(pause_s)}, peak memory rose by {grown}")
    print("of the memory recording:", ", ".join(f"{name} {format_seconds(took)}" for name, took in spent.items()))


if __name__ == "__main__":
    main()
