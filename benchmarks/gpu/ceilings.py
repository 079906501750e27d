"""Rates that the device reaches, beside its datasheet and figures of others.

    python -m benchmarks.gpu.ceilings --device cuda

`plain` times a bf16 product and a copy on the device with torch's events alone. `short` and `full` run perfkit's
calibrations, which are kept for this machine (`docs/ceilings.md`).
"""

import statistics
import sys
import time
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.rows import Found, Row, Setting, main

if TYPE_CHECKING:
    from perfkit.devices.ceilings.ceiling import DeviceCeilings

# Side of the product, bytes of the copied array; seconds of heating before; calls of each.
SIZES = {"cuda": (8192, 2**30), "cpu": (512, 2**26)}
HEAT_S = {"cuda": 5.0, "cpu": 0.2}
CALLS = {"cuda": 50, "cpu": 5}

# Measured rates: id in the catalogue, level and dtype -> value and its source.
EXPECTED: dict[tuple[str, str, str | None], tuple[float, str]] = {
    ("h200-sxm", "matrix", "bf16"): (788e12, "a product of 8192^3 of random numbers on another H200"),
    ("h200-sxm", "memory", None): (4.3e12, "a copy on another H200"),
}
# Share of the datasheet's dense bf16 peak: maximum achievable matmul FLOPS, stas00/ml-engineering, compute/accelerator.
EXPECTED_SHARE = {"h100-sxm": 0.80, "a100-sxm-40gb": 0.87, "a100-sxm-80gb": 0.87, "b200": 0.78}
# Bounds of measured / expected.
NEAR = (0.85, 1.10)
OVER_DATASHEET = 1.05


def plain(setting: Setting) -> Found:
    """Rates of a bf16 product and of a copy, by torch alone."""
    import torch

    size, copied = SIZES[setting.device]
    left, right = (torch.randn(size, size, device=setting.device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.randn(copied // 4, device=setting.device)
    target = torch.empty_like(source)
    end = time.monotonic() + HEAT_S[setting.device]
    while time.monotonic() < end:
        torch.mm(left, right)
        if setting.device == "cuda":
            torch.cuda.synchronize()
    rates = {
        ("matrix", "bf16"): 2 * size**3 / _seconds(setting.device, lambda: torch.mm(left, right)),
        ("memory", None): 2 * copied / _seconds(setting.device, lambda: target.copy_(source)),
    }
    name = torch.cuda.get_device_name(0) if setting.device == "cuda" else "cpu"
    return compare_rates({key: (value, None) for key, value in rates.items()}, name)


def calibration(setting: Setting, *, short: bool) -> Found:
    """Rates of perfkit's calibration."""
    if not short:
        setting.needs_gpu()
    setting.needs_perfkit()
    from perfkit.devices.ceilings.ceiling import CeilingKind
    from perfkit.devices.lookup.ceiling_lookup import calibrate_machine

    def progress(line: str) -> None:
        print(line, file=sys.stderr)

    cached = calibrate_machine(setting.device, [] if setting.device == "cuda" else [1], short=short, progress=progress)
    measured: DeviceCeilings = cached.calibrations[-1].measured  # this one alone: the best of all days says less
    rates = {
        (str(ceiling.level), ceiling.dtype): (ceiling.value, ceiling.spread)
        for ceiling in measured.ceilings
        if ceiling.kind == CeilingKind.MEASURED
    }
    beside = compare_rates(rates, measured.device_name)
    notes = [f"note: {note}" for note in measured.notes]
    return Found(
        {**beside.figures, "notes": [note.text for note in measured.notes]}, [*beside.lines, *notes], beside.wrong
    )


def _seconds(device: str, call: Any) -> float:
    """The median duration of a call."""
    import torch

    call()
    if device == "cpu":
        stamps = [time.perf_counter()]
        for _ in range(CALLS[device]):
            call()
            stamps.append(time.perf_counter())
        return statistics.median(after - before for before, after in pairwise(stamps))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(CALLS[device] + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return float(statistics.median(before.elapsed_time(after) for before, after in pairwise(events))) / 1e3


def compare_rates(measured: dict[tuple[str, str | None], tuple[float, float | None]], name: str) -> Found:
    """Compare each rate, with its spread, to the expected one and to the datasheet of the device called `name`."""
    ident, sheet = _datasheet(name)
    figures, lines, wrong = [], [], []
    for (level, dtype), (value, spread) in measured.items():
        peak = sheet.get((level, dtype))
        expected, source = expected_rate(ident, level, dtype, peak)
        figures.append(
            {"level": level, "dtype": dtype, "value": value, "spread": spread, "datasheet": peak, "expected": expected,
             "of_datasheet": peak and value / peak, "of_expected": expected and value / expected, "source": source}
        )  # fmt: skip
        text = f"{level} {dtype or ''}".strip()
        lines.append(
            f"{text:14} {value / 1e12:9.4g} T/s"
            + (f"  {value / peak:6.1%} of the datasheet's {peak / 1e12:.1f}" if peak else "")
            + (f"  {value / expected:6.1%} of {expected / 1e12:.1f}, {source}" if expected else "")
        )
        if expected and not NEAR[0] <= value / expected <= NEAR[1]:
            wrong.append(f"{text} is {value / expected:.2f} times the expected rate")
        if peak and value > OVER_DATASHEET * peak:
            wrong.append(f"{text} is {value / peak:.2f} times the datasheet's")
    return Found({"name": name, "catalogue": ident, "ceilings": figures}, lines, wrong)


def expected_rate(ident: str | None, level: str, dtype: str | None, peak: float | None) -> tuple[float | None, str]:
    """The rate expected of a device and its source; None and "" where none is known."""
    if ident is not None and (ident, level, dtype) in EXPECTED:
        return EXPECTED[ident, level, dtype]
    if peak is not None and (level, dtype) == ("matrix", "bf16") and ident in EXPECTED_SHARE:
        return EXPECTED_SHARE[ident] * peak, "stas00/ml-engineering, maximum achievable matmul FLOPS"
    return None, ""


def _datasheet(name: str) -> tuple[str | None, dict[tuple[str, str | None], float]]:
    """The device's id in the catalogue and its peaks; None and {} without the packages that read the catalogue."""
    from benchmarks.gpu.packages import find_missing

    if find_missing():
        return None, {}
    from perfkit.devices.catalog.catalog import build_datasheet_ceilings, find_entry

    entry = find_entry(name)
    if entry is None:
        return None, {}
    return entry.id, {(str(ceiling.level), ceiling.dtype): ceiling.value for ceiling in build_datasheet_ceilings(entry)}


ROWS = (
    Row("plain", plain, 60),
    Row("short", partial(calibration, short=True), 120),
    Row("full", partial(calibration, short=False), 420),
)

if __name__ == "__main__":
    main("ceilings", __doc__, ROWS)
