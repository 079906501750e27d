"""A training loop, timed in blocks that wait for the device, with and without an instrument attached."""

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
# Width, heads, sequences and their length of the layers of a loop whose depth is chosen by its step time. One of a GPU
# is narrow enough that a step of 2 ms has a layer.
LAYER = {"cuda": (512, 8, 8, 512), "cpu": (64, 4, 2, 16)}
CALIBRATED = 4  # layers of the loop whose time tells the depth


@dataclass(frozen=True)
class Block:
    """Seconds a step: of the clock on the wall, and of the process's CPU time."""

    wall_s: float
    cpu_s: float


def training(device: str, compile_mode: str = "") -> "Trained":
    """A stack of transformer layers in fp32 with AdamW, warmed up."""
    layers, *size = SIZES[device]
    return _build_loop(device, layers, size, compile_mode)


def build_loop(device: str, step_s: float) -> "Trained":
    """A loop as deep as a step of about `step_s` seconds takes; at least one layer."""
    shallow = _build_loop(device, CALIBRATED, LAYER[device])
    layer_s = block(shallow, 20).wall_s / CALIBRATED
    return _build_loop(device, max(1, round(step_s / layer_s)), LAYER[device])


def _build_loop(device: str, layers: int, size: Sequence[int], compile_mode: str = "") -> "Trained":
    import torch
    from torch import nn

    from benchmarks.attach_overhead import Trained

    width, heads, batch, length = size
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
    """Time so many steps, from an idle device to an idle device."""
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
    """The number of steps that take about so many seconds, at least 10."""
    return max(10, round(seconds / block(trained, 10).wall_s))


def overhead(
    trained: "Trained",
    watched: Callable[[int], AbstractContextManager[Callable[[], None]]],
    device: str,
    most: float | None,
    *,
    pairs: int | None = None,
    block_s: float | None = None,
) -> Found:
    """Time blocks with an instrument and without, in the order ABBA; `watched` attaches it for a pair, by its number.

    Wrong where on a GPU even the least slowed pair is slower by more than `most`, a ratio. `pairs` and `block_s`
    replace the device's own.
    """
    from benchmarks.attach_overhead import SETTLE

    steps = steps_for(trained, BLOCK_S[device] if block_s is None else block_s)
    plain, on = [], []
    for pair in range(PAIRS[device] if pairs is None else pairs):
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
    over = device == "cuda" and most is not None and min(ratios) > most
    wrong = [f"every pair is slower by more than {most - 1:.1%}"] if most is not None and over else []
    return Found(figures, [_show_ratios(ratios, added)], wrong)


def _show_ratios(ratios: Sequence[float], added_s: float) -> str:
    return (
        f"with / without: median {statistics.median(ratios):.4f} of {len(ratios)} pairs "
        f"({min(ratios):.4f} to {max(ratios):.4f}); {added_s * 1e6:.0f} us of CPU time a step"
    )
