"""Measures the bytes that live between two steps by category: copies that a technique keeps show there."""

import gc
import math
from collections import Counter
from collections.abc import Iterable

import torch

from perfkit.core.allocations import GRADIENT, HOST, INPUT, LIVE_CATEGORIES, OTHER
from perfkit.devices.accelerator import is_cpu
from perfkit.instruments.memory.training_state import find_other_blocks
from perfkit.instruments.training.tensors import list_known_blocks
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Technique


def measure_live_bytes(
    state: TrainState, harness: frozenset[int] = frozenset(), gradients: frozenset[int] = frozenset()
) -> dict[str, float]:
    """Measure the facts `live_bytes:<category>`, and `live_bytes:other:<dtype>` and `live_bytes:host:<dtype>`.

    `other` are tensors in Python outside of the training state, on its device, and `host` such tensors in host memory
    if that is not the device's; without datasets, and without the storages at the addresses `harness`. Storages at the
    addresses `gradients` had gradients just now: buckets outlive these.
    """
    gc.collect()  # cycles of garbage hold tensors
    known = list_known_blocks(state)
    devices = {OTHER: state.device} if is_cpu(state.device) else {OTHER: state.device, HOST: torch.device("cpu")}
    sizes: Counter[str] = Counter(dict.fromkeys(LIVE_CATEGORIES, 0))
    for block in known:
        sizes[block.category] += block.size_bytes
    for category, device in devices.items():
        for block in find_other_blocks(device, known, harness):
            if block.category == INPUT:
                continue
            if block.address in gradients:
                sizes[GRADIENT] += block.size_bytes
                continue
            sizes[category] += block.size_bytes
            sizes[f"{category}:{block.dtype}"] += block.size_bytes
    return {f"live_bytes:{name}": float(size) for name, size in sizes.items()}


def sum_declared_bytes(techniques: Iterable[Technique], state: TrainState) -> dict[str, float]:
    """Sum the facts `declared_bytes:<category>`: what techniques say that they add; absent where that is unlimited."""
    sizes = dict.fromkeys(LIVE_CATEGORIES, 0.0)
    for technique in techniques:
        for category, size in technique.count_kept_bytes(state).items():
            sizes[category] += size
    return {f"declared_bytes:{name}": size for name, size in sizes.items() if math.isfinite(size)}
