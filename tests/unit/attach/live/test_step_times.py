"""Step times by the host's clock and by device events; the device is a fake that is reached when told so."""

import pytest
import torch

from perfkit.attach.live.step_times import DeviceTimes, HostTimes, choose_step_times
from tests.fixtures.two_gpus import two_gpus


class FakeDevice:
    """A device whose events are reached when `reach` says so, at the times given to `record`."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.made = 0
        self.pending: list[FakeEvent] = []

    def new_event(self) -> "FakeEvent":
        self.made += 1
        return FakeEvent(self)

    def reach(self) -> None:
        for event in self.pending:
            event.reached = True
        self.pending.clear()

    def times(self) -> DeviceTimes:
        return DeviceTimes(torch.device("cuda", 1), self.new_event, lambda device: f"stream of {device}")


class FakeEvent:
    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.at_ms = 0.0
        self.reached = True

    def record(self, stream: str) -> None:
        assert stream == "stream of cuda:1"
        assert self.reached, "an event that is still waited for was used again"
        self.at_ms, self.reached = self.device.now_ms, False
        self.device.pending.append(self)

    def query(self) -> bool:
        return self.reached

    def elapsed_time(self, after: "FakeEvent") -> float:
        assert self.reached
        assert after.reached
        return after.at_ms - self.at_ms


def test_host_times_are_between_boundaries() -> None:
    times = HostTimes()
    times.start(100)
    assert list(times.end(1, 130)) == [(1, 30)]
    assert list(times.end(2, 170)) == [(2, 40)]
    times.start(1000)
    assert list(times.end(4, 1010)) == [(4, 10)]


def test_device_times_come_when_the_device_is_there() -> None:
    device = FakeDevice()
    times = device.times()
    times.start(0)
    device.now_ms = 2
    assert list(times.end(1, 0)) == []
    device.now_ms = 5
    assert list(times.end(2, 0)) == []
    device.reach()
    device.now_ms = 9
    assert list(times.end(3, 0)) == [(1, 2_000_000), (2, 3_000_000)]
    device.reach()
    device.now_ms = 10
    assert list(times.end(4, 0)) == [(3, 4_000_000)]


def test_events_are_used_again() -> None:
    device = FakeDevice()
    times = device.times()
    times.start(0)
    for step in range(1, 100):
        device.now_ms += 1
        times.end(step, 0)
        device.reach()
    assert device.made <= 4


def test_a_step_that_is_skipped_has_no_time() -> None:
    device = FakeDevice()
    times = device.times()
    times.start(0)
    device.now_ms = 2
    times.end(1, 0)
    device.now_ms = 50
    times.start(0)  # step 2 was not to be measured
    device.now_ms = 53
    times.end(3, 0)
    device.reach()
    device.now_ms = 57
    assert list(times.end(4, 0)) == [(1, 2_000_000), (3, 3_000_000)]


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_a_model_on_the_second_gpu_gets_its_own_times(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    gpus = two_gpus(monkeypatch, kind)
    times = choose_step_times(torch.device(kind, 1))
    times.start(0)
    gpus.launch(1, 40)
    times.end(1, 0)
    gpus.launch(1, 30)
    gpus.synchronize(1)
    assert [(step, round(ns / 1e6)) for step, ns in times.end(2, 0)] == [(1, 41), (2, 30)]
    assert (gpus.contexts, gpus.recorded) == ({1}, [1, 1, 1])


def test_the_kind_is_chosen_by_the_device() -> None:
    assert isinstance(choose_step_times(torch.device("cpu")), HostTimes)
    assert isinstance(choose_step_times(torch.device("cuda", 0)), DeviceTimes)
