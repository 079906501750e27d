"""Copies and triads on a GPU, in its memory and its L2, and transfers over the link to the host."""

import functools

import torch

from perfkit.core.note import Note, make_note
from perfkit.devices.calibration.kernel_timing import FAILURES, CalibrationKernel, TimingWindow, format_reason
from perfkit.devices.ceilings.ceiling import CeilingLevel

STREAM_BYTES = 2**30  # of one array, far beyond any L2
STREAM_SHARE = 8  # of free memory, for three arrays at a time
LINK_BYTES = 256 * 2**20
L2_CALLS = 100


def build_kernels(free_bytes: int, l2_bytes: int) -> tuple[list[CalibrationKernel], list[Note]]:
    """Build the kernels that bound bandwidths, with notes on their interpretation and omissions."""
    notes = [make_note("ceilings.counted_bytes", "bandwidths count each byte read and each byte written")]
    elements = min(STREAM_BYTES, free_bytes // STREAM_SHARE) // 4
    chosen = [_build_copy(elements), _build_triad(CeilingLevel.MEMORY, elements)]
    if l2_bytes:
        chosen.append(_build_triad(CeilingLevel.L2, l2_bytes // 2 // 12, calls=L2_CALLS))
        text = "L2 is measured by triads replayed from a graph; launch gaps between them make it a lower bound"
        notes.append(make_note("ceilings.lower_bound", text))
    try:
        host = torch.randint(0, 127, (LINK_BYTES,), dtype=torch.int8, pin_memory=True)
    except FAILURES as error:
        text = f"host link not measured: {LINK_BYTES // 2**20} MiB cannot be pinned ({format_reason(error)})"
        notes.append(make_note("ceilings.not_measured", text))
    else:
        chosen += [_build_host_link(host, to_device=True), _build_host_link(host, to_device=False)]
    return chosen, notes


def _build_copy(elements: int) -> CalibrationKernel:
    def prepare() -> TimingWindow:
        source = torch.randn(elements, device="cuda")
        target = torch.empty_like(source)
        return TimingWindow(lambda: target.copy_(source), 8.0 * elements)

    label = f"copy of {4 * elements / 2**20:.0f} MiB"
    return CalibrationKernel(
        level=CeilingLevel.MEMORY, dtype=None, threads=None, label=label, unit="B/s", prepare=prepare
    )


def _build_triad(level: CeilingLevel, elements: int, calls: int = 1) -> CalibrationKernel:
    def prepare() -> TimingWindow:
        a, b, c = (torch.randn(elements, device="cuda") for _ in range(3))
        if calls == 1:
            return TimingWindow(lambda: torch.add(b, c, alpha=0.5, out=a), 12.0 * elements)
        torch.add(b, c, alpha=0.5, out=a)  # loads the kernel before the capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                torch.add(b, c, alpha=0.5, out=a)

        def replay(*_: torch.Tensor) -> None:  # the graph keeps addresses, not tensors
            graph.replay()

        return TimingWindow(functools.partial(replay, a, b, c), 12.0 * elements * calls)

    label = f"triad of {12 * elements / 2**20:.0f} MiB in {level}"
    return CalibrationKernel(level=level, dtype=None, threads=None, label=label, unit="B/s", prepare=prepare)


def _build_host_link(host: torch.Tensor, *, to_device: bool) -> CalibrationKernel:
    """A transfer of pinned memory one way. The faster direction becomes the ceiling, since it bounds both.

    The pinned memory is the same for both ways and all repeats: to make it takes longer than all of its transfers.
    """

    def prepare() -> TimingWindow:
        device = torch.empty(LINK_BYTES, dtype=torch.int8, device="cuda")
        target, source = (device, host) if to_device else (host, device)
        return TimingWindow(lambda: target.copy_(source, non_blocking=True), float(LINK_BYTES))

    label = f"pinned transfer {'to' if to_device else 'from'} the device, {LINK_BYTES // 2**20} MiB"
    return CalibrationKernel(
        level=CeilingLevel.HOST_LINK, dtype=None, threads=None, label=label, unit="B/s", prepare=prepare
    )
