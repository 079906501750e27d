"""Known mistakes in printed figures of MFU, each with the factor by which it changes them."""

from collections.abc import Iterator
from typing import NamedTuple

from perfkit.core.units import format_flop_rate
from perfkit.devices.catalog.catalog import CatalogEntry, resolve_entry
from perfkit.mfu.audit_model import Mistake
from perfkit.mfu.peak_rates import MfuPeak, list_other_forms, list_peaks

# Peaks that programs compare any GPU with: nanoGPT's `estimate_mfu` and torchtitan's `get_peak_flops` for an unknown
# device, and nanochat's.
_HARD_CODED = ("a100-sxm-80gb", "h100-sxm")


class Setting(NamedTuple):
    """Where a figure was measured. `entry` and `peak` are None without a known GPU."""

    gpus: int
    gpus_per_node: int
    accumulation: int
    entry: CatalogEntry | None
    peak: MfuPeak | None
    peaks: tuple[MfuPeak, ...]


def list_work_mistakes(setting: Setting) -> Iterator[Mistake]:
    """Mistakes in the FLOPs or the tokens: they change FLOP/s, too."""
    yield Mistake(id="forward_only", text="forward pass alone: 2N in place of 6N", factor=1 / 3)
    yield Mistake(id="multiply_adds", text="a multiply-add counted as one FLOP", factor=1 / 2)
    if setting.accumulation > 1:
        times = setting.accumulation
        yield Mistake(id="accumulation.twice", text=f"{times} microbatches counted twice", factor=float(times))
        yield Mistake(id="accumulation.once", text=f"one of {times} microbatches counted", factor=1 / times)
    if setting.gpus > 1:
        yield Mistake(
            id="gpus.one_peak",
            text=f"tokens of {setting.gpus} GPUs, peak of one",
            factor=float(setting.gpus),
        )
        yield Mistake(
            id="gpus.all_peaks",
            text=f"tokens of one GPU, peak of {setting.gpus}",
            factor=1 / setting.gpus,
        )
    if setting.gpus_per_node > 1 and setting.gpus != setting.gpus_per_node:
        node = setting.gpus_per_node
        yield Mistake(id="node.one_peak", text=f"tokens of a node, peak of one of its {node} GPUs", factor=float(node))
        yield Mistake(id="node.all_peaks", text=f"tokens of one GPU, peak of its node of {node}", factor=1 / node)


def list_peak_mistakes(setting: Setting) -> Iterator[Mistake]:
    """Mistakes in the peak: they change the share alone."""
    peak, entry = setting.peak, setting.entry
    if peak is None:
        return
    if peak.sparse is not None:
        rate = format_flop_rate(peak.sparse)
        yield Mistake(id="peak.sparse", text=f"peak with 2:4 sparsity ({rate})", factor=peak.dense / peak.sparse)
    seen = {peak.dense, peak.sparse}
    for other in setting.peaks:
        for of_dtype, words in ((other.dense, other.dtype), (other.sparse, f"{other.dtype} with 2:4 sparsity")):
            if of_dtype is not None and not _is_seen(of_dtype, seen):
                text = f"peak of {words} ({format_flop_rate(of_dtype)})"
                yield Mistake(id=f"peak.{words.partition(' ')[0]}", text=text, factor=peak.dense / of_dtype)
    if entry is None:
        return
    for device in (*list_other_forms(entry), *map(resolve_entry, _HARD_CODED)):
        for other in list_peaks(device):
            if other.dtype == peak.dtype and not _is_seen(other.dense, seen):
                text = f"peak of another GPU, {device.id} ({format_flop_rate(other.dense)})"
                yield Mistake(id=f"peak.{device.id}", text=text, factor=peak.dense / other.dense)


def _is_seen(rate: float, seen: set[float | None]) -> bool:
    """True for a rate within a thousandth of an earlier one, which would be the same mistake; notes it otherwise."""
    if any(known is not None and abs(rate / known - 1) < 1e-3 for known in seen):
        return True
    seen.add(rate)
    return False
