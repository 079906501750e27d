"""A training loop on a GPU, timed in blocks that wait for the device: what attaches is held against that."""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.gpu.rows import Found

if TYPE_CHECKING:
    from benchmarks.attach_overhead import Trained

# Layers, width, heads, sequences and their length.
SIZES = {"cuda": (12, 768, 12, 8, 512), "cpu": (2, 64, 4, 2, 16)}
BLOCK_S = {"cuda": 1.0, "cpu": 0.1}
PAIRS = {"cuda": 10, "cpu": 3}


@dataclass(frozen=True)
class Block:
    """Seconds a step: of the clock on the wall, and of the process's CPU time."""

    wall_s: float
    cpu_s: float


def training(device: str, compile_mode: str = "") -> "Trained":
    """A stack of transformer layers in fp32 with AdamW, that has run before."""
    import torch
    from torch import nn

    from benchmarks.attach_overhead import Trained

    layers, width, heads, batch, length = SIZES[device]
    if device == "cpu":
        torch.set_num_threads(1)  # layers as small as these gain nothing by more, and threads that wait spin
    torch.manual_seed(0)
    blocks = (nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True) for _ in range(layers))
    model = nn.Sequential(*blocks).to(device)
    if compile_mode:
        model.compile(mode=compile_mode)
    data = list(torch.randn(2, batch, length, width, device=device))
    trained = Trained(model, torch.optim.AdamW(model.parameters()), itertools.repeat(data))
    for _ in range(5):
        trained.step()
    return trained


def block(trained: "Trained", steps: int, end: Callable[[], None] = lambda: None) -> Block:
    """So many steps, from a device that has nothing to do to one that has nothing to do again."""
    import torch

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    wait()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        trained.step()
        end()
    wait()
    return Block((time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps)


def steps_for(trained: "Trained", seconds: float) -> int:
    """How many steps take about so long."""
    return max(10, round(seconds / block(trained, 10).wall_s))


def overhead(
    trained: "Trained",
    watched: Callable[[int], AbstractContextManager[Callable[[], None]]],
    device: str,
    most: float,
) -> Found:
    """Blocks watched and not, by turns (ABBA); `watched` attaches for a pair of which it gets the number.

    Wrong where on a GPU even the pair that it slowed down least is slower by more than `most`, a ratio.
    """
    from benchmarks.attach_overhead import SETTLE

    steps = steps_for(trained, BLOCK_S[device])
    plain, on = [], []
    for pair in range(PAIRS[device]):
        for watching in (False, True) if pair % 2 == 0 else (True, False):
            if watching:
                with watched(pair) as end:
                    block(trained, SETTLE, end)
                    on.append(block(trained, steps, end))
            else:
                block(trained, SETTLE)
                plain.append(block(trained, steps))
    ratios = [watching.wall_s / not_watching.wall_s for not_watching, watching in zip(plain, on, strict=True)]
    added = statistics.median(b.cpu_s - a.cpu_s for a, b in zip(plain, on, strict=True))
    figures = {
        "steps": steps,
        "step_s": statistics.median(measured.wall_s for measured in plain),
        "watched_step_s": statistics.median(measured.wall_s for measured in on),
        "ratios": ratios,
        "median_ratio": statistics.median(ratios),
        "added_cpu_s": added,
    }
    wrong = [f"every pair is slower by more than {most - 1:.1%}"] if device == "cuda" and min(ratios) > most else []
    return Found(figures, [_line(ratios, added)], wrong)


def _line(ratios: Sequence[float], added_s: float) -> str:
    return (
        f"watched / not: median {statistics.median(ratios):.4f} of {len(ratios)} pairs "
        f"({min(ratios):.4f} to {max(ratios):.4f}); {added_s * 1e6:.0f} us of CPU time a step"
    )
