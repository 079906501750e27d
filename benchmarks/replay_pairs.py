"""Programs that were changed: a what-if on the trace of each against what the changed program took.

    python benchmarks/replay_pairs.py --out FOLDER

Trains a small network on the CPU, whose products take a fixed time, as it is and changed (half the layers; a loader
that sleeps; a check that takes `.item()` of parts of every gradient), by turns in one process. The round in which both
took least is kept, since other load only ever makes them slower: `PAIR.before.json.gz` and `PAIR.after.json.gz`. Prints
the steps as recorded, the one that is simulated from the first, and how far it is from the second, in ms.
"""

import argparse
import gzip
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, Dataset

from perfkit.core.record.trace_marks import STEP_MARK
from tests.fixtures.changed_programs import CHANGES, recorded_s, steps_of
from tests.fixtures.synthetic_machine.replayed import replayed_file

LAYERS, WIDTH, BATCH, STEPS = 8, 64, 64, 4
# Of a product forward, twice of it backward; of a batch that is made slowly.
PRODUCT_S, LOADS_S = 1e-3, 10e-3


@dataclass(frozen=True)
class Program:
    """What is trained, and what a step does besides."""

    layers: int = LAYERS
    sleeps: bool = False
    checks: bool = False


# Each program as it is, and as it is changed.
PAIRS = {
    "half_the_layers": (Program(), Program(layers=LAYERS // 2)),
    "sleeping_loader": (Program(sleeps=True), Program()),
    "item_of_each_gradient": (Program(layers=2, checks=True), Program(layers=2)),
}


def _work(seconds: float) -> None:
    """Keep the processor busy for a fixed time, however fast it is."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class _Product(torch.autograd.Function):
    """A matrix product that takes a fixed time."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        _work(PRODUCT_S)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        _work(2 * PRODUCT_S)
        return gradient @ weight.T, x.T @ gradient


class _Batches(Dataset[torch.Tensor]):
    def __init__(self, sleeps: bool) -> None:
        self.sleeps, self.batch = sleeps, torch.randn(BATCH, WIDTH)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.sleeps:
            time.sleep(LOADS_S)
        return self.batch


def steps(program: Program) -> Callable[[], None]:
    """A step of the program, to be called again and again."""
    torch.manual_seed(0)
    weights = [torch.randn(WIDTH, WIDTH, requires_grad=True) for _ in range(program.layers)]
    optimizer = torch.optim.SGD(weights, lr=1e-3, foreach=True)
    batches: Iterator[torch.Tensor] = iter(DataLoader(_Batches(program.sleeps), batch_size=None))

    def step() -> None:
        x = next(batches)
        for number, weight in enumerate(weights):
            with record_function(f"layers.{number}"):
                x = torch.tanh(_Product.apply(x, weight))
        x.square().mean().backward()
        if program.checks:
            with record_function("check_gradients"):
                for weight in weights:
                    assert weight.grad is not None
                    for row in weight.grad[:24]:
                        assert torch.isfinite(row).all().item()
        optimizer.step()
        optimizer.zero_grad()

    return step


def record(step: Callable[[], None], path: Path) -> None:
    """A trace of some steps."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for number in range(STEPS):
            with record_function(f"{STEP_MARK}#{number}"):
                step()
    profiler.export_chrome_trace(str(path))


def _step_s(path: Path) -> float:
    replayed = replayed_file(path)
    assert replayed is not None, path
    return recorded_s(replayed)


def packed(path: Path, out: Path) -> None:
    """The trace without what tells of the machine, packed."""
    trace: dict[str, Any] = json.loads(path.read_text())
    kept = {
        key: value for key, value in trace.items() if key in ("schemaVersion", "displayTimeUnit", "baseTimeNanoseconds")
    }
    kept["traceEvents"] = trace["traceEvents"]
    with out.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
        zipped.write(json.dumps(kept, separators=(",", ":")).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    made = {side: given.out / f"round.{side}.json" for side in ("before", "after")}
    for name, (before, after) in PAIRS.items():
        sides = {"before": steps(before), "after": steps(after)}
        for step in sides.values():
            for _ in range(5):
                step()
        best = math.inf
        for _ in range(given.rounds):
            for side, step in sides.items():
                record(step, made[side])
            took = sum(_step_s(path) for path in made.values())
            if took < best:
                best = took
                for side, path in made.items():
                    packed(path, given.out / f"{name}.{side}.json.gz")
        step = steps_of(name, given.out)
        print(
            f"| {name} | `{CHANGES[name]}` | {step.before * 1e3:.2f} | {step.after * 1e3:.2f} | "
            f"{step.simulated * 1e3:.2f} | {step.simulated / step.after - 1:+.1%} |"
        )
    for path in made.values():
        path.unlink()


if __name__ == "__main__":
    main()
