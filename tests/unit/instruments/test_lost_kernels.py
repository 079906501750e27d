"""Launches in traced steps against what the device recorded, with events as torch's Kineto gives them."""

from dataclasses import dataclass

import pytest
import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from perfkit.devices.cupti import CuptiVersion
from perfkit.instruments import lost_kernels
from perfkit.instruments.lost_kernels import KernelCount, count_kernels, list_remarks
from perfkit.instruments.range_marks import mark_step

ALL = slice(0, None)
LOST = "the profiler lost 500 of 2,000 kernels of the traced steps (25.0 %)"


@dataclass(frozen=True)
class Event:
    """A `_KinetoEvent`."""

    called: str
    start: int
    took: int
    on: DeviceType = DeviceType.CPU
    id: int = 0
    annotation: bool = False

    def name(self) -> str:
        return self.called

    def start_ns(self) -> int:
        return self.start

    def duration_ns(self) -> int:
        return self.took

    def device_type(self) -> DeviceType:
        return self.on

    def correlation_id(self) -> int:
        return self.id

    def is_user_annotation(self) -> bool:
        return self.annotation


def step(number: int) -> Event:
    return Event(f"perfkit::step#{number}", number * 1000, 900, annotation=True)


def launch(id: int, start: int, name: str = "cudaLaunchKernel") -> Event:
    return Event(name, start, 5, id=id)


def kernel(id: int, took: int = 50) -> Event:
    return Event("gemm", 5000, took, DeviceType.CUDA, id)


STEPS = [step(0), step(1), launch(1, 10), launch(2, 1010), launch(3, 1020)]


CAPTURE = [Event("cudaStreamBeginCapture", 1005, 1), Event("cudaStreamEndCapture", 1015, 1)]
GRAPH = [step(0), launch(7, 10, "cudaGraphLaunch"), kernel(7), kernel(7), kernel(7, took=0)]


@pytest.mark.parametrize(
    ("events", "counted", "expected"),
    [
        (
            [*STEPS, kernel(1), kernel(2), kernel(3), Event("perfkit::step#0", 0, 9, DeviceType.CUDA, 77, True)],
            ALL,
            KernelCount(launched=3, lost=0, graphs=0),
        ),
        ([*STEPS, kernel(1), kernel(3, took=0)], ALL, KernelCount(3, 2, 0)),  # without a record, and without a time
        ([*STEPS, kernel(2), kernel(3)], slice(1, None), KernelCount(2, 0, 0)),  # what the lead loses does not count
        ([*STEPS, kernel(2), kernel(3)], ALL, KernelCount(3, 1, 0)),
        (STEPS, ALL, KernelCount(3, 3, 0)),  # a session that recorded nothing lost all
        ([step(0), kernel(1)], ALL, None),  # no launches, or other ids, tell nothing
        ([*STEPS, kernel(91), kernel(92)], ALL, None),
        # What is captured does not run.
        ([step(1), *CAPTURE, launch(2, 1010), launch(3, 1020), kernel(3)], ALL, KernelCount(1, 0, 0)),
        (GRAPH, ALL, KernelCount(3, 1, 1)),  # kernels of a graph share the id of its launch
        # Copies are not counted, since those of no bytes leave no record.
        ([step(0), launch(1, 10), launch(2, 20, "cudaMemsetAsync"), kernel(1)], ALL, KernelCount(1, 0, 0)),
    ],
)
def test_launches_against_what_was_recorded(events: list[Event], counted: slice, expected: KernelCount | None) -> None:
    assert count_kernels(events, counted) == expected


def test_a_session_that_recorded_nothing_lost_too_many() -> None:
    assert KernelCount(3, 3, 0).too_many


@pytest.mark.parametrize(
    ("count", "session", "version", "expected"),
    [
        (KernelCount(2000, 2, 0), 1, CuptiVersion(13, 0, 85), []),
        (
            KernelCount(2000, 500, 0),
            1,
            CuptiVersion(13, 0, 85),
            [f"{LOST}: CUPTI 13.0.85 is known to lose some"],
        ),
        (KernelCount(2000, 500, 0), 1, None, [LOST]),
        (KernelCount(2000, 0, 4), 1, CuptiVersion(12, 8), []),
        (KernelCount(2000, 0, 0), 2, CuptiVersion(12, 8), []),
        (KernelCount(2000, 0, 4), 2, CuptiVersion(13, 1, 115), []),
        (None, 3, CuptiVersion(12, 8), []),
    ],
)
def test_what_is_said(
    count: KernelCount | None,
    session: int,
    version: CuptiVersion | None,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lost_kernels, "find_cupti", lambda: version)
    assert [note.text for note in list_remarks(count, session)] == expected


def test_graphs_in_a_later_session_before_13_1_update_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_kernels, "find_cupti", lambda: CuptiVersion(13, 1, 75))
    (said,) = list_remarks(KernelCount(2000, 0, 4), 2)
    assert (said.id, said.figures) == ("recording.mixed_up_graphs", {"recording": 2})
    assert "CUPTI 13.1.75" in said.text


def test_what_torch_itself_gives() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as recorded, mark_step(0):
        torch.ones(5).sum()
    results = recorded.profiler.kineto_results
    events = results.events()
    assert count_kernels(events, ALL) is None  # a CPU launches nothing
    at = next(each.start_ns() for each in events if each.name() == "aten::sum")
    assert count_kernels([*events, launch(1, at), launch(2, at), kernel(2)], ALL) == KernelCount(2, 1, 0)
