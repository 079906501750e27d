"""A loop that is watched all the time: the clock at each step, statistics and a line of the log once a second."""

import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median

import torch

from perfkit.attach.host.delivery import Delivery
from perfkit.attach.host.guard import Guard
from perfkit.attach.live.live_events import DRIFT, END, OUTLIER, TRACE, StepEvent, make_drift_event, make_outlier_event
from perfkit.attach.live.live_log import LiveLog
from perfkit.attach.live.live_options import LiveOptions
from perfkit.attach.live.resources import ResourceReader, open_reader
from perfkit.attach.live.scalars import build_scalars
from perfkit.attach.live.step_times import StepTimes, choose_step_times
from perfkit.attach.live.step_trend import StepTrend, UsualTime, compute_usual
from perfkit.attach.live.trace_triggers import TraceTriggers
from perfkit.store.live import LiveEvent, LiveStart, LiveWindow

Callback = Callable[[StepEvent], None]
NEVER = float("inf")


class LiveWatch:
    """Watches steps from their boundaries on: `start`, then `step` or `skip` after each, all from the training thread.

    A step costs a few list operations; statistics, resources, the log and triggers come once a period, at the end of a
    step. An exception that leaves a method is a failure of perfkit: the log cannot be written, say. One of a callback
    is logged once, and the callback is not called again.

    Attributes:
        last: the number of the last step that ended; the first is 1 unless `start` says otherwise.
        units_per_step: tokens or samples of a step, None as long as it is not known.
        flops_per_step: of this rank, None as long as it is not known.
    """

    def __init__(
        self,
        log: LiveLog,
        start: LiveStart,
        times: StepTimes,
        resources: ResourceReader,
        *,
        options: LiveOptions,
        triggers: TraceTriggers | None = None,
        deliveries: Sequence[Delivery] = (),
        on_outlier: Callback | None = None,
        on_drift: Callback | None = None,
        units_per_step: float | None = None,
        first_steps: Sequence[float] = (),
        time_s: Callable[[], float] = time.time,
    ) -> None:
        self.last = 0
        self.units_per_step = units_per_step
        self.flops_per_step = start.flops_per_step
        self._peak_flops = start.peak_flops
        self._log = log
        self._times = times
        self._resources = resources
        self._options = options
        self._triggers = triggers
        self._deliveries = deliveries
        self._time_s = time_s
        self._callbacks = {
            kind: (Guard(lambda: None, f"on_{kind}"), callback)
            for kind, callback in ((OUTLIER, on_outlier), (DRIFT, on_drift))
            if callback is not None
        }
        self._period_ns = round(options.period_s * 1e9)
        self._look_ns = self._line_ns = 0
        self._warmup = options.warmup
        self._walls = array("q")  # of the steps since the last line
        self._waits = array("q")
        self._looked = 0  # number already processed
        self._recent: list[int] = []
        self._window: list[int] = []
        self._trend = StepTrend(options, first_steps)
        self._usual: UsualTime | None = None
        self._limit_ns = NEVER
        self._untold = 0
        self._told_ns: int | None = None
        log.write(start)

    def start(self, now_ns: int, last: int | None = None) -> None:
        """The step after `last` begins: the first, or the first after a pause. Where `last` is not given it is the step
        that ended last as counted here."""
        self.last = self.last if last is None else last
        self._times.start(now_ns)
        self._look_ns = now_ns + self._period_ns
        self._line_ns = now_ns + self._period_ns

    def step(self, now_ns: int, data_wait_ns: int | None = None) -> Sequence[StepEvent]:
        """Record the end of a step with its data wait, None where unknown. Returns events to report, mostly none.

        On a GPU a step's time is known some steps later, when the device has come to its end.
        """
        self.last += 1
        if data_wait_ns is not None:
            self._waits.append(data_wait_ns)
        events: list[StepEvent] = []
        for step, wall in self._times.end(self.last, now_ns):
            self._walls.append(wall)
            if wall > self._limit_ns:
                events += self._report_outlier(step, wall, now_ns)
        if now_ns >= self._look_ns:
            events += self._update_statistics(now_ns)
        return events

    def skip(self, now_ns: int) -> None:
        """A step ended that is like no other, since something was recorded or evaluated in it: it is not measured."""
        self.last += 1
        self._times.start(now_ns)
        if now_ns >= self._look_ns:
            self._poll_triggers(now_ns)

    def write_event(self, kind: str, text: str) -> None:
        """Write an event into the log, as of the last step."""
        self._log.write(LiveEvent(time_s=self._time_s(), step=self.last, kind=kind, text=text))

    def close(self, reason: str) -> None:
        """Write the rest and the reason for the end; remove and stop everything that the watch set up.

        The deliveries remain: whoever made them sends the report and closes them.
        """
        try:
            self._write_line()
            self.write_event(END, reason)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Remove and stop everything that the watch set up, and write nothing: the log may have failed."""
        self._resources.close()
        self._log.close()
        if self._triggers is not None:
            self._triggers.close()

    def _report_outlier(self, step: int, wall: int, now_ns: int) -> list[StepEvent]:
        if self._told_ns is not None and now_ns - self._told_ns < self._options.outlier_every_s * 1e9:
            self._untold += 1
            return []
        assert self._usual is not None
        event = make_outlier_event(step, wall / 1e9, self._usual.median / 1e9, self._untold)
        self._untold, self._told_ns = 0, now_ns
        self._report_event(event, now_ns)
        return [event]

    def _update_statistics(self, now_ns: int) -> list[StepEvent]:
        """The statistics of the steps since the last look, and a line where one is due."""
        fresh = self._walls[self._looked :].tolist()
        self._looked = len(self._walls)
        skipped = min(self._warmup, len(fresh))
        self._warmup -= skipped
        events = self._find_drifts(fresh[skipped:], now_ns)
        self._recent = (self._recent + fresh[skipped:])[-self._options.recent :]
        self._usual = compute_usual(self._recent, self._options)
        self._limit_ns = self._usual.limit if self._usual else NEVER
        if now_ns >= self._line_ns:
            self._write_line()
            self._line_ns = now_ns + self._period_ns * self._log.stretch
        self._poll_triggers(now_ns)
        return events

    def _find_drifts(self, fresh: list[int], now_ns: int) -> list[StepEvent]:
        options, events = self._options, []
        self._window += fresh
        while len(self._window) >= options.window:
            rise = self._trend.add(median(self._window[: options.window]))
            del self._window[: options.window]
            if rise is not None:
                steps = options.window * options.sustained
                event = make_drift_event(self.last - len(self._window), rise.now / 1e9, rise.before / 1e9, steps)
                self._report_event(event, now_ns)
                events.append(event)
        return events

    def _poll_triggers(self, now_ns: int) -> None:
        self._look_ns = now_ns + self._period_ns
        if self._triggers is not None:
            self._triggers.poll(self.last, now_ns, self._usual.median / 1e9 if self._usual else None)

    def _report_event(self, event: StepEvent, now_ns: int) -> None:
        self._log.write(LiveEvent(time_s=self._time_s(), step=event.step, kind=event.kind, text=event.text))
        refusal = "" if self._triggers is None else self._triggers.handle_event(event, now_ns)
        if refusal:
            self._log.write(LiveEvent(time_s=self._time_s(), step=event.step, kind=TRACE, text=refusal))
        if event.kind in self._callbacks:
            guard, callback = self._callbacks[event.kind]
            guard(callback, event)

    def _write_line(self) -> None:
        """Write the figures of the steps since the last line, and send them to the loggers."""
        walls, waits = self._walls, self._waits
        if not walls:
            return
        step_s = median(walls) / 1e9
        units, flops, peak = self.units_per_step, self.flops_per_step, self._peak_flops
        resources = self._resources.read()
        window = LiveWindow(
            time_s=self._time_s(),
            last_step=self.last,
            steps=len(walls),
            step_s=step_s,
            step_max_s=max(walls) / 1e9,
            data_wait_s=fmean(waits) / 1e9 if waits else None,
            units_per_s=None if units is None else units * len(walls) / (sum(walls) / 1e9),
            mfu=_compute_utilization(flops, peak, step_s),
            **resources._asdict(),
        )
        del walls[:], waits[:]
        self._looked = 0
        self._log.write(window)
        if self._deliveries:
            values = build_scalars(window)
            for delivery in self._deliveries:
                delivery.scalars(self.last, values)


def _compute_utilization(flops: float | None, peak: float | None, step_s: float) -> float | None:
    """None where unknown, or where the steps are faster than the peak."""
    share = None if flops is None or peak is None else flops / (step_s * peak)
    return share if share is None or share <= 1 else None


def open_watch(
    path: Path,
    start: LiveStart,
    device: torch.device,
    *,
    options: LiveOptions | None = None,
    triggers: TraceTriggers | None = None,
    deliveries: Sequence[Delivery] = (),
    on_outlier: Callback | None = None,
    on_drift: Callback | None = None,
    units_per_step: float | None = None,
    first_steps: Sequence[float] = (),
) -> LiveWatch:
    """Open a watch of this process's loop on `device` that writes to `path`. `first_steps` are times of steps before
    it, in nanoseconds. A `PerfkitError` says why it cannot."""
    options = options or LiveOptions()
    return LiveWatch(
        LiveLog(path, options.log_bytes),
        start,
        choose_step_times(device),
        open_reader(device, options.period_s),
        options=options,
        triggers=triggers,
        deliveries=deliveries,
        on_outlier=on_outlier,
        on_drift=on_drift,
        units_per_step=units_per_step,
        first_steps=first_steps,
    )
