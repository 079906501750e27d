"""Modeled rates beside the GPU's performance monitors, sampled every millisecond.

    python -m benchmarks.gpu.pm_sampling --device cuda

`torch.profiler._cupti.pm_sampling.PmSampler` (torch 2.14, with the package `cupti-python`) samples while a product and
then a copy run. The share of the memory's peak that the monitors show during the copy is compared with the bytes that
the copy moves by perfkit's model, over the datasheet's bandwidth. Sampling locks the GPU's clocks: rates are compared
within one window, never with other rows.
"""

import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.gpu.rows import Found, Row, Setting, Skipped, main

MODULE = "torch.profiler._cupti.pm_sampling"
# Both fit into one pass, which is all that a sampler takes (test/profiler/test_cupti_pm_sampling.py of torch).
ACTIVE = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
PHASE_S = 1.0
PRODUCT = 8192  # side of the bf16 matrices
COPIED_BYTES = 2**30
LEAST_ACTIVE = 50.0  # per cent of cycles, while a product runs
NEAR = 0.15  # between modeled and sampled share of the memory's peak


def sample_phases(setting: Setting) -> Found:
    """Sample a product and a copy."""
    sampler_class = find_sampler()
    setting.needs_gpu()
    setting.needs_perfkit()
    import torch

    left, right = (torch.randn(PRODUCT, PRODUCT, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    source = torch.randn(COPIED_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    handle = sampler_class(torch.cuda.current_device()).add_consumer([ACTIVE, MEMORY])
    try:
        product = _run_phase(lambda: torch.mm(left, right), handle)
        copy = _run_phase(lambda: target.copy_(source), handle)
    finally:
        handle.detach()
    return compare_samples(product, copy, memory_peak(torch.cuda.get_device_name(0)))


def memory_peak(device_name: str) -> float:
    """The datasheet's memory bandwidth of a device, in bytes per second."""
    from perfkit.devices.catalog.catalog import build_datasheet_ceilings, resolve_entry
    from perfkit.devices.ceilings.ceiling import CeilingLevel

    (peak,) = (
        ceiling.value
        for ceiling in build_datasheet_ceilings(resolve_entry(device_name))
        if ceiling.level == CeilingLevel.MEMORY
    )
    return peak


def find_sampler() -> Any:
    """The class `PmSampler`; `Skipped` where torch or its CUPTI bindings have none."""
    try:
        known = importlib.util.find_spec(MODULE)
    except ModuleNotFoundError:  # of a parent package
        known = None
    if known is None:
        import torch

        raise Skipped(f"torch {torch.__version__} has no {MODULE} (torch 2.14 has)")
    try:
        return importlib.import_module(MODULE).PmSampler
    except ImportError as error:  # it imports cupti-python as it is loaded
        raise Skipped(f"{MODULE} cannot be imported: {error}") from None


def compare_samples(
    product: tuple[Mapping[str, Sequence[float]] | None, float],
    copy: tuple[Mapping[str, Sequence[float]] | None, float],
    peak_bytes_per_s: float,
) -> Found:
    """Compare the frames of both phases, each with its seconds a call, with the model."""
    (product_frame, product_s), (copy_frame, copy_s) = product, copy
    if product_frame is None or copy_frame is None:
        raise Skipped("the sampler started no session or drew no sample: this user may not read the monitors, perhaps")
    active = statistics.median(product_frame[ACTIVE])
    sampled = statistics.median(copy_frame[MEMORY]) / 100
    modeled = 2 * COPIED_BYTES / copy_s / peak_bytes_per_s
    figures = {
        "samples": {"product": len(product_frame[ACTIVE]), "copy": len(copy_frame[MEMORY])},
        "product_s": product_s,
        "copy_s": copy_s,
        "active_percent": active,
        "memory_share_sampled": sampled,
        "memory_share_modeled": modeled,
    }
    lines = [
        f"product: SMs active in {active:.1f} % of cycles",
        f"copy: {sampled:.1%} of the memory's peak sampled, {modeled:.1%} modeled",
    ]
    wrong = [] if active >= LEAST_ACTIVE else [f"SMs active in {active:.0f} % of cycles during a product"]
    if not sampled or abs(modeled / sampled - 1) > NEAR:
        wrong.append(f"bytes of a copy: modeled {modeled:.1%} of the peak, sampled {sampled:.1%}")
    return Found(figures, lines, wrong)


def _run_phase(call: Callable[[], object], handle: Any) -> tuple[Mapping[str, Sequence[float]] | None, float]:
    """The frame of a phase of `PHASE_S` seconds, and the seconds of a call. Samples of earlier phases are dropped."""
    import torch

    call()
    torch.cuda.synchronize()
    handle.poll()
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < PHASE_S:
        for _ in range(10):  # few enough that the queue stays short
            call()
        calls += 10
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / calls
    return handle.poll(), seconds


ROWS = (
    Row("pm-sampling", sample_phases, 40, planned_s=12, basis="8 s start, two phases of 1 s; 1 s where it is skipped"),
)

if __name__ == "__main__":
    main("pm_sampling", __doc__, ROWS)
