"""A watch with a clock of its own: what it writes, what it tells, what it leaves alone."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from perfkit.attach.host.delivery import Delivery
from perfkit.attach.live import live_log as log_module
from perfkit.attach.live.live_events import StepEvent
from perfkit.attach.live.live_log import LiveLog
from perfkit.attach.live.live_options import LiveOptions
from perfkit.attach.live.live_watch import LiveWatch, open_watch
from perfkit.attach.live.resources import ResourceReader
from perfkit.attach.live.step_times import HostTimes
from perfkit.attach.live.trace_triggers import TRACE_NOW, TraceTriggers
from perfkit.core.errors import PerfkitError
from perfkit.store.live import LiveEvent, LiveStart, LiveWindow, read_live

MS = 10**6
START = LiveStart(time_s=0.0, pid=1, hostname="h", name="n", device_name="cpu", flops_per_step=4e9, peak_flops=1e12)
OPTIONS = LiveOptions(reference=4)


class Loop:
    """A loop of somebody's with a clock that only its steps move."""

    def __init__(self, folder: Path, options: LiveOptions = OPTIONS, **wishes: Any) -> None:
        self.path = folder / "live.jsonl"
        self.now = 10**15
        self.events: list[StepEvent] = []
        log = LiveLog(self.path, options.log_bytes)
        resources = ResourceReader(torch.device("cpu"), statm=folder / "none")
        self.watch = LiveWatch(log, START, HostTimes(), resources, options=options, time_s=self.time_s, **wishes)
        self.watch.start(self.now)

    def time_s(self) -> float:
        return self.now / 1e9 - 10**6

    def run(self, steps: int, step_ms: float = 20, wait_ms: float = 0) -> None:
        for _ in range(steps):
            self.now += round(step_ms * MS)
            self.events += self.watch.step(self.now, round(wait_ms * MS))

    def windows(self) -> list[LiveWindow]:
        return [line for line in read_live(self.path) if isinstance(line, LiveWindow)]

    def told(self) -> list[LiveEvent]:
        return [line for line in read_live(self.path) if isinstance(line, LiveEvent)]


def test_a_line_a_second(tmp_path: Path) -> None:
    loop = Loop(tmp_path, units_per_step=8)
    loop.run(149, wait_ms=4)
    assert [line for line in read_live(loop.path) if isinstance(line, LiveStart)] == [START]
    first, second = loop.windows()
    assert (first.last_step, first.steps, first.time_s) == (50, 50, 1.0)
    assert (second.last_step, second.steps, second.time_s) == (100, 50, 2.0)
    assert second.step_s == second.step_max_s == 0.02
    assert second.data_wait_s == pytest.approx(0.004)
    assert second.units_per_s == pytest.approx(400)
    assert second.mfu == pytest.approx(0.2)
    assert second.rss_bytes is None
    assert second.allocated_bytes is None


def test_medians_throughput_and_mean_wait_of_uneven_steps(tmp_path: Path) -> None:
    loop = Loop(tmp_path, units_per_step=1)
    loop.run(9, 100)
    loop.run(1, 1100, wait_ms=1000)
    (line,) = loop.windows()
    assert (line.steps, line.step_s, line.step_max_s) == (10, 0.1, 1.1)
    assert line.data_wait_s == pytest.approx(0.1)
    assert line.units_per_s == pytest.approx(5)


def test_what_is_not_known_is_none(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.watch.flops_per_step = None
    loop.run(50)
    (line,) = loop.windows()
    assert line.units_per_s is None
    assert line.mfu is None


def test_steps_that_are_faster_than_the_peak_have_no_utilization(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(500, step_ms=4)
    loop.run(500, step_ms=2)
    lines = loop.windows()
    assert lines[0].mfu == 1.0  # 4 GFLOP in 4 ms at 1 TFLOP/s
    assert lines[-1].mfu is None


def test_slow_steps_have_a_line_each(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(3, 2500)
    assert [line.steps for line in loop.windows()] == [1, 1, 1]


def test_the_end_is_written_with_what_was_left(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(70)
    loop.watch.close("finished")
    assert [line.steps for line in loop.windows()] == [50, 20]
    assert [(line.kind, line.step, line.text) for line in loop.told()] == [("end", 70, "finished")]


def test_an_outlier_is_told_at_its_step(tmp_path: Path) -> None:
    heard: list[StepEvent] = []
    loop = Loop(tmp_path, on_outlier=heard.append)
    loop.run(110)
    loop.run(1, 29)
    assert loop.events == []
    loop.run(1, 31)
    (event,) = loop.events
    assert (event.kind, event.step, event.step_s, event.usual_s) == ("outlier", 112, 0.031, 0.02)
    assert all(figure in event.text for figure in ("112", "31.0 ms", "1.6", "20.0 ms"))
    assert heard == [event]
    assert [(line.kind, line.step, line.text) for line in loop.told()] == [("outlier", 112, event.text)]


def test_outliers_are_told_once_a_minute_and_counted(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(110)
    for _ in range(20):
        loop.run(1, 100)
        loop.run(399)
    assert [event.step for event in loop.events] == [111, 111 + 8 * 400, 111 + 16 * 400]
    assert loop.events[1].text.partition("; ")[2].startswith("7 ")


def test_warm_up_is_not_judged_and_not_the_reference(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(10, 900)
    loop.run(1000)
    assert loop.events == []
    assert loop.windows()[0].step_max_s == 0.9  # but it is in the log


def test_a_drift_is_told_once(tmp_path: Path) -> None:
    heard: list[StepEvent] = []
    loop = Loop(tmp_path, on_drift=heard.append)
    loop.run(210)
    loop.run(400, 24)
    (event,) = loop.events
    assert (event.kind, event.step_s, event.usual_s) == ("drift", 0.024, 0.02)
    assert event.step == 410
    assert all(figure in event.text for figure in ("20 %", "24.0 ms", "200", "20.0 ms"))
    assert heard == [event]


def test_skipped_steps_count_and_are_not_measured(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(110)
    for _ in range(5):
        loop.now += 5000 * MS
        loop.watch.skip(loop.now)
    loop.run(50)
    assert loop.watch.last == 165
    assert loop.events == []
    loop.watch.close("finished")
    assert sum(line.steps for line in loop.windows()) == 160
    assert max(line.step_max_s for line in loop.windows()) == 0.02


def test_after_a_pause_steps_go_on_with_the_number_given(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.watch.start(loop.now, last=3)
    loop.run(110)
    loop.now += 60_000 * MS
    loop.watch.start(loop.now, last=120)
    loop.run(50)
    assert loop.events == []
    assert (loop.windows()[-1].last_step, loop.windows()[-1].step_max_s) == (170, 0.02)


def test_a_callback_that_fails_is_not_called_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[StepEvent] = []

    def on_outlier(event: StepEvent) -> None:
        calls.append(event)
        raise RuntimeError("no such channel")

    loop = Loop(tmp_path, LiveOptions(outlier_every_s=0), on_outlier=on_outlier)
    loop.run(110)
    for _ in range(2):
        loop.run(1, 100)
        loop.run(60)
    assert len(loop.events) == 2
    assert len(calls) == 1
    assert "on_outlier" in caplog.text


def test_an_outlier_asks_for_a_trace(tmp_path: Path) -> None:
    triggers = TraceTriggers(["outlier"], tmp_path)
    loop = Loop(tmp_path, triggers=triggers)
    loop.run(110)
    loop.run(1, 100)
    loop.run(50)
    assert triggers.get_due_reason(loop.watch.last) == loop.events[0].text
    loop.watch.close("finished")


def test_two_drifts_ask_for_a_trace_each_and_a_further_one_is_logged_without(tmp_path: Path) -> None:
    triggers = TraceTriggers(["regression"], tmp_path, max_traces=2)
    loop = Loop(tmp_path, triggers=triggers)
    loop.run(410)
    asked = []
    for step_ms in (25, 31, 39):
        loop.run(300, step_ms)
        asked.append(triggers.get_due_reason(loop.watch.last))
        if asked[-1] is not None:
            triggers.mark_started(loop.now)
    assert asked == [loop.events[0].text, loop.events[1].text, None]
    assert [event.kind for event in loop.told()] == ["drift"] * 3 + ["trace"]
    loop.watch.close("finished")


def test_steps_from_before_the_watch_show_that_it_began_slow(tmp_path: Path) -> None:
    loop = Loop(tmp_path, OPTIONS, first_steps=[20.0 * MS] * 25)
    loop.run(260, 29)
    assert [(event.kind, event.usual_s, event.step_s) for event in loop.events] == [("drift", 0.02, 0.029)]


def test_a_file_is_seen_within_a_period_also_while_steps_are_skipped(tmp_path: Path) -> None:
    triggers = TraceTriggers(["file"], tmp_path)
    loop = Loop(tmp_path, triggers=triggers)
    (tmp_path / TRACE_NOW).touch()
    for _ in range(50):
        assert triggers.get_due_reason(loop.watch.last) is None
        loop.now += 20 * MS
        loop.watch.skip(loop.now)
    assert triggers.get_due_reason(loop.watch.last)
    loop.watch.close("finished")


def test_lines_become_rarer_and_events_do_not(tmp_path: Path) -> None:
    loop = Loop(tmp_path, LiveOptions(log_bytes=1000, reference=4))
    loop.run(5000)
    steps = [line.steps for line in loop.windows()]
    assert steps[0] == 50
    assert steps == sorted(steps)
    assert steps[-1] >= 200
    loop.run(1, 100)
    assert len(loop.events) == 1


class Recorder:
    def __init__(self) -> None:
        self.sent: list[tuple[int, Mapping[str, float]]] = []

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self.sent.append((step, values))

    def report(self, folder: Path) -> None: ...

    def close(self) -> None: ...


def test_loggers_get_what_is_known_once_a_line(tmp_path: Path) -> None:
    logger = Recorder()
    delivery = Delivery(logger)
    loop = Loop(tmp_path, deliveries=[delivery])
    loop.run(120)
    assert delivery.close(30)
    assert [step for step, _ in logger.sent] == [50, 100]
    assert logger.sent[0][1]["perfkit/step_s"] == 0.02
    assert "perfkit/power_w" not in logger.sent[0][1]


def test_a_full_disk_reaches_the_caller_and_all_can_be_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(tmp_path)

    def full(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(log_module.os, "write", full)
    loop.run(49)
    with pytest.raises(PerfkitError, match="No space left"):
        loop.run(1)
    with pytest.raises(PerfkitError, match="No space left"):
        loop.watch.close("finished")
    loop.watch.abandon()


def test_a_watch_of_this_process(tmp_path: Path) -> None:
    watch = open_watch(tmp_path / "rank0" / "live.jsonl", START, torch.device("cpu"))
    watch.start(0)
    watch.step(2 * 10**9)
    watch.close("finished")
    lines = list(read_live(tmp_path / "rank0" / "live.jsonl"))
    assert isinstance(lines[1], LiveWindow)
    assert lines[1].rss_bytes
