"""Counts the kernels that the profiler lost in the steps just traced, and words remarks on them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch._C._autograd import DeviceType

from perfkit.core.note import Note, make_note
from perfkit.core.record.trace_marks import STEP_MARK
from perfkit.core.units import format_percent
from perfkit.devices import cupti
from perfkit.devices.device_calls import (
    TOLERATED,
    is_capture_begin,
    is_capture_end,
    is_cuda_graph_launch,
    is_kernel_launch,
)


class KinetoEvent(Protocol):
    """The part of torch's `_KinetoEvent` that is used: device work, and calls and ranges on the CPU."""

    def name(self) -> str: ...
    def start_ns(self) -> int: ...
    def duration_ns(self) -> int: ...
    def device_type(self) -> DeviceType: ...
    def correlation_id(self) -> int: ...
    def is_user_annotation(self) -> bool: ...


class KernelCount(NamedTuple):
    """Kernels launched in the traced steps, how many of them have no record with a time, and the launches of graphs."""

    launched: int
    lost: int
    graphs: int

    @property
    def share(self) -> float:
        return self.lost / self.launched if self.launched else 0.0

    @property
    def too_many(self) -> bool:
        """True if the loss changes figures."""
        return self.share > TOLERATED


def count_kernels(events: Iterable[KinetoEvent], wanted: slice) -> KernelCount | None:
    """Count in the marked steps of the slice `wanted`; the device must have finished its work.

    Agrees with the analysis of the written trace, except for copies without a time. None if unknown: no launch was
    recorded, or work and launches share no ids.
    """
    host, timed, untimed = [], Counter[int](), Counter[int]()
    for event in events:
        if event.device_type() == DeviceType.CPU:
            host.append(event)
        elif not event.is_user_annotation():
            (timed if event.duration_ns() > 0 else untimed)[event.correlation_id()] += 1
    calls = _find_launches(host, _find_steps(host, wanted))
    if not calls or ((timed or untimed) and not any(timed[call] or untimed[call] for call, _ in calls)):
        return None
    launched = sum(max(1, timed[call] + untimed[call]) for call, _ in calls)
    lost = sum(untimed[call] if timed[call] or untimed[call] else 1 for call, _ in calls)
    return KernelCount(launched, lost, sum(is_graph for _, is_graph in calls))


def _find_steps(host: Iterable[KinetoEvent], wanted: slice) -> list[tuple[int, int]]:
    marked = sorted(
        (event.start_ns(), event.start_ns() + event.duration_ns())
        for event in host
        if event.name().startswith(f"{STEP_MARK}#")
    )
    return marked[wanted]


def _find_launches(host: Iterable[KinetoEvent], steps: Sequence[tuple[int, int]]) -> list[tuple[int, bool]]:
    """The ids of the launches in these steps, and whether each starts a graph; not of what a graph is captured from."""
    launches: list[tuple[int, bool]] = []
    captures = 0
    for event in sorted(host, key=lambda one: one.start_ns()):
        name = event.name()
        if is_capture_begin(name):
            captures += 1
        elif is_capture_end(name):
            captures = max(0, captures - 1)
        elif captures or not (is_kernel_launch(name) or is_cuda_graph_launch(name)):
            continue
        elif any(start <= event.start_ns() < end for start, end in steps):
            launches.append((event.correlation_id(), is_cuda_graph_launch(name)))
    return launches


def find_cupti() -> cupti.CuptiVersion | None:
    """The version of CUPTI that torch records with: its package's, else that of the CUDA which torch was built with."""
    return cupti.find_installed_version() or cupti.derive_cuda_version(torch.version.cuda or "")


def list_remarks(count: KernelCount | None, session: int) -> list[Note]:
    """List remarks on a trace that was the process's `session`-th on a GPU; empty if there are none."""
    if count is None:
        return []
    remarks, version = [], find_cupti()
    if count.too_many:
        known = f": {version} is known to lose some" if version is not None and version.loses_records else ""
        text = (
            f"the profiler lost {count.lost:,} of {count.launched:,} kernels of the traced steps "
            f"({format_percent(count.share)}){known}"
        )
        remarks.append(make_note("recording.lost_kernels", text, lost=count.lost, launched=count.launched))
    if count.graphs and session > 1 and version is not None and version.mixes_up_graphs:
        text = (
            f"the trace is the {session}. recording of this process: before 13.1 update 1 ({version} here) "
            "CUPTI mixes up the ids of CUDA graphs in all but the first one, so their kernels may be "
            "attributed to other launches"
        )
        remarks.append(make_note("recording.mixed_up_graphs", text, recording=session))
    return remarks
