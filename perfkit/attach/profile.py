"""`perfkit.profile`: a loop that exists is watched, a few of its steps are recorded, and the rest is left alone."""

import atexit
import os
import sys
import threading
import traceback
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from torch import nn
from torch.optim import Optimizer

from perfkit.attach.delivery import Delivery
from perfkit.attach.folder import default_folder, remove_unused
from perfkit.attach.guard import LOG, Guard, describe
from perfkit.attach.hooks import LoopHooks, without_our_frames
from perfkit.attach.launched import launched_rank
from perfkit.attach.live.open import LiveWishes, watch_of
from perfkit.attach.live.triggers import REASONS
from perfkit.attach.live.watch import Callback
from perfkit.attach.logger import Logger
from perfkit.attach.loop import Loop
from perfkit.attach.phases import follow
from perfkit.attach.profilers import ProfilerTaken
from perfkit.attach.program import program, watched
from perfkit.attach.report import await_ranks, deliver, write_report
from perfkit.attach.session import Session, Wishes
from perfkit.attach.steps import StepFinder
from perfkit.attach.summary import Summary, summary_of
from perfkit.attach.thread_end import ThreadEnd
from perfkit.attach.variant import VariantRecording
from perfkit.errors import UsageError, unknown_name
from perfkit.instruments.failure import first_line, status_of
from perfkit.instruments.recording import Recording
from perfkit.record import Status
from perfkit.spec import Schedule

_KINETO_LEVEL, _KINETO_SILENT = "KINETO_LOG_LEVEL", "6"

# The one that is watching: torch has one profiler, and steps are found by hooks that are there once.
_watching: "Profile | None" = None


class Profile:
    """Watches the training loop that runs while it is entered; see `profile`."""

    def __init__(
        self,
        wishes: Wishes,
        *,
        optimizers: Sequence[Optimizer],
        step_every: int | None,
        report: bool,
        loggers: Sequence[Logger],
        live: LiveWishes | None,
    ) -> None:
        self._wishes = wishes
        self._optimizers = optimizers
        self._step_every = step_every
        self._report = report
        self._loggers = loggers
        self._live = live
        self._deliveries: tuple[Delivery, ...] = ()
        self._session: Session | None = None
        self._program: Recording[None] | None = None
        self._hooks: LoopHooks | None = None
        self._guard: Guard | None = None
        self._searches = -1
        self._unfinished = False  # the loop's thread ended while there was more to record
        self._thread_end = ThreadEnd()

    @property
    def active(self) -> bool:
        """Whether it still watches: not before `start`, when all is recorded (unless always on), or when it failed."""
        return self._hooks is not None

    @property
    def folder(self) -> Path:
        """The folder of the run; until the first step is over, the one that was asked for."""
        if self._session is not None and self._session.main is not None:
            return self._session.folder
        return self._wishes.folder

    @property
    def recorded(self) -> bool:
        """Whether there is anything in `folder` of this profile's."""
        return self._session is not None and self._session.main is not None

    def start(self, *, by_hand: bool = False) -> Self:
        """Begin to watch; `by_hand`: only `step` tells steps. Raises nothing on perfkit's account."""
        global _watching
        if _watching is not None:
            LOG.warning("perfkit is watching this process already: %s is not recorded", self._wishes.folder)
            return self
        _watching = self
        self._guard = Guard(self._switch_off)
        self._guard(self._begin, by_hand)
        return self

    def step(self) -> None:
        """A step of the loop ends here. Once this was called, steps are no longer told by optimizers."""
        if self._guard is not None and self._hooks is not None and self._session is not None:
            self._guard(self._session.loop.step)

    def evaluated(self) -> None:
        """An evaluation ran in this step, whose time is left out. Not needed where hooks can see it."""
        if self._guard is not None and self._session is not None:
            self._guard(self._session.loop.evaluated)

    def stop(self, error: BaseException | None = None) -> None:
        """Stop watching and write what there is; `error` is what ended the loop, None where it ended well."""
        global _watching
        if _watching is not self or self._guard is None:
            return
        if error is not None:
            without_our_frames(error)
        try:
            self._guard(self._finish, error)
        finally:  # also where somebody interrupts it
            self._unhook()
            if self._session is not None:
                self._session.let_go()
            _watching = None
            atexit.unregister(self._at_exit)

    def summary(self) -> Summary:
        """What was recorded, drawn now: text when printed, with figures where a notebook shows it.

        The report is written for it, in a process of its own. May be called while the loop runs.
        """
        return summary_of(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop(error)

    def _begin(self, by_hand: bool) -> None:
        if launched_rank() == 0:
            self._wishes.folder.mkdir(parents=True, exist_ok=True)  # fails now, where it can be seen, if it must
        # What Kineto says of each of its recordings is not the program's output.
        os.environ.setdefault(_KINETO_LEVEL, _KINETO_SILENT)
        loop = Loop(StepFinder(self._step_every), self._boundary)
        loop.by_hand = by_hand
        for each in self._optimizers:
            loop.know(each)
        self._session = Session(self._wishes, loop)
        self._searches = -1
        self._unfinished = False
        assert self._guard is not None
        self._hooks = LoopHooks(loop, self._guard)
        self._hooks.install()
        self._session.profiler.install(self._guard, self._give_way)
        follow(loop.phases)
        atexit.register(self._at_exit)

    def _boundary(self) -> None:
        session = self._session
        assert session is not None
        if session.capturing():
            # What is captured does not run, so it is no step; an event, a wait or a profiler would void the capture.
            session.loop.counts.captures += 1
            return
        session.unmark_step()
        session.steps += 1
        if session.main is None:
            session.open()
            if session.world.rank == 0:
                self._deliveries = tuple(Delivery(each) for each in self._loggers)
        assert session.main is not None
        self._begin_anew(session, session.main)
        if self._program is None:
            return
        if self._resume(session, self._program, None):
            session.mark_step()

    def _give_way(self) -> None:
        """The program's own profiler is about to begin, and one of ours is on."""
        session = self._session
        assert session is not None
        session.loop.phases.end()
        if self._program is not None:
            self._resume(session, self._program, ProfilerTaken())
        session.unmark_step()

    def _resume(self, session: Session, program: Recording[None], error: Exception | None) -> bool:
        """Have the program do what is to be done here, or be told of `error`; whether it wants to be resumed again."""
        with session.profiler.calling():
            try:
                if error is None:
                    next(program)
                else:
                    program.throw(error)
            except StopIteration:
                self._program = None
                self._unhook()
                session.let_go()
        return self._program is not None

    def _begin_anew(self, session: Session, recording: VariantRecording) -> None:
        """Start over where a new optimizer shows that what was taken for steps may have been parts of them."""
        searches = session.loop.finder.searches
        if searches == self._searches:
            return
        if self._program is None or not (recording.instrumented_s or session.watch):
            self._close_program()
            recording.forget(session.look())
            self._program = self._passes(session, recording)
            if threading.current_thread() is not threading.main_thread():
                self._thread_end.call(self._on_thread_end)
        else:
            recording.warnings.append("an optimizer that had not stepped before did so while steps were recorded")
        self._searches = searches

    def _passes(self, session: Session, recording: VariantRecording) -> Recording[None]:
        assert self._hooks is not None
        yield from program(session, recording, self._hooks)
        live = self._live
        if live is not None:
            yield from watched(session, partial(watch_of, live, self._deliveries), count=live.flops_per_step is None)

    def _finish(self, error: BaseException | None) -> None:
        session = self._session
        assert session is not None
        if error is None:
            session.loop.settle()
        unfinished = (self._unfinished or self._program is not None) and session.watch is None
        self._close_program()
        recording = session.main
        if recording is None:
            remove_unused(self._wishes.folder)
            if error is None:
                LOG.warning(
                    "perfkit saw no step of an optimizer in %s, so nothing was recorded: call step() of the profile "
                    "once a step, or name a function with --step-function",
                    self._wishes.name,
                )
            return
        regular = error is None or _is_regular(error)
        status = Status.OK if error is None or regular else status_of(error)
        reason = "" if error is None or regular else first_line(error)
        if unfinished and regular:
            recording.warnings.append(_too_short(session, recording))
        text = "" if error is None or regular else "".join(traceback.format_exception(error)).rstrip()
        if session.watch is not None:
            session.watch.close(reason or "the loop ended")
        session.end(recording, status, reason, text)
        written = False
        if self._report and session.world.rank == 0:
            await_ranks(recording.folder, session.world.size)
            written = write_report(session.folder)
        if session.watch is None:
            for each in self._deliveries:
                each.scalars(session.steps, session.figures())
        deliver(self._deliveries, session.folder if written else None)

    def _on_thread_end(self) -> None:
        if self._guard is not None:
            self._guard(self._leave_thread)

    def _leave_thread(self) -> None:
        """The thread whose loop is recorded ends: nothing follows, and its profiler must end on it."""
        assert self._session is not None
        self._session.loop.settle()
        self._unfinished = self._program is not None
        self._close_program()
        self._unhook()

    def _at_exit(self) -> None:
        self.stop(getattr(sys, "last_value", None))

    def _switch_off(self) -> None:
        self._unhook()
        try:
            self._close_program()
        finally:
            if self._session is not None and self._session.watch is not None:
                self._session.watch.abandon()
            if self._session is not None:
                self._session.let_go()
                assert self._guard is not None
                assert self._guard.failure is not None
                self._session.abandon(f"perfkit switched itself off: {describe(self._guard.failure)}")

    def _close_program(self) -> None:
        running, self._program = self._program, None
        if running is not None and self._session is not None:
            with self._session.profiler.calling():
                running.close()
        if self._session is not None:
            self._session.unmark_step()

    def _unhook(self) -> None:
        if self._hooks is not None:
            self._hooks.remove()
            if self._session is not None:
                self._session.profiler.remove()
            follow(None)
        self._hooks = None


def profile(
    folder: str | Path | None = None,
    *,
    model: nn.Module | Mapping[str, nn.Module] | None = None,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    name: str = "",
    schedule: Schedule | None = None,
    step_every: int | None = None,
    units_per_step: float | None = None,
    unit: str = "samples",
    report: bool = True,
    loggers: Sequence[Logger] = (),
    always_on: bool = False,
    trace_on: Collection[str] = (),
    on_outlier: Callback | None = None,
    on_drift: Callback | None = None,
    flops_per_step: float | None = None,
) -> Profile:
    """Watch the training loop in a `with` block (or between `start()` and `stop()`) and record a few of its steps.

        with perfkit.profile("runs/today"):
            train()

    Steps, models and optimizers are found by hooks. Warm-up is skipped, then some steps are timed with nothing on but
    the clock, some are traced, of some every allocation is recorded; after that all hooks are gone and the loop runs
    on as it would without. Nothing of the loop's results changes, and no error of perfkit reaches it: the first is
    logged (logger `perfkit`) and perfkit switches itself off.

    Args:
        folder: where the run is written, by default `runs/TIME-NAME`; a number is added where it holds a run already.
        model, optimizer: what is trained, if it shall not be looked for; models by name where there are several.
        name: what the run is called in reports, by default as the script.
        schedule: how many steps of each kind; by default `perfkit.spec.Schedule()`.
        step_every: so many optimizer steps are a step of the loop.
        units_per_step: what a step trains on, of this rank, in units called `unit`; else samples are counted in the
            batches of DataLoaders, or in what the model is called with.
        report: write `report.html` and its like into the folder at the end, in a process of its own.
        loggers: where figures and the report go beside the folder (`perfkit.integrations`).
        always_on: instead of a few steps watch all of them, lightly: their times, what they wait for data, memory, MFU
            and the GPU's sensors go to a log, a line a second.
        trace_on: of a loop that is always watched, what lets the next steps be traced: `regression`, `outlier`,
            `signal` (SIGUSR1), `file` (`trace-now` in the run's folder). Then a trace is made at the beginning, too,
            to compare with.
        on_outlier, on_drift: called when a step takes unusually long, and when all have become slower.
        flops_per_step: of this rank, for the MFU; else they are counted in one step, where that can be done.

    Raises:
        UsageError: an option that makes no sense.
    """
    for reason in trace_on:
        if reason not in REASONS:
            raise unknown_name("reason to trace", reason, REASONS)
    only_always = {
        "trace_on": trace_on,
        "on_outlier": on_outlier,
        "on_drift": on_drift,
        "flops_per_step": flops_per_step,
    }
    for option, given in only_always.items():
        if given and not always_on:
            raise UsageError(f"{option} is for a loop that is watched all the time: give always_on=True as well")
    planned = schedule or Schedule()
    if always_on:
        planned = msgspec.structs.replace(planned, memory=0, trace=planned.trace if trace_on else 0)
    called = name or _script_name()
    models = {} if model is None else {"": model} if isinstance(model, nn.Module) else dict(model)
    optimizers = [] if optimizer is None else [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
    wishes = Wishes(
        folder=Path(folder) if folder is not None else default_folder(called, datetime.now()),
        name=called,
        models=models,
        schedule=planned,
        units_per_step=units_per_step,
        unit=unit,
    )
    live = LiveWishes(trace_on=trace_on, on_outlier=on_outlier, on_drift=on_drift, flops_per_step=flops_per_step)
    return Profile(
        wishes,
        optimizers=optimizers,
        step_every=step_every,
        report=report,
        loggers=loggers,
        live=live if always_on else None,
    )


def _script_name() -> str:
    """`train` for `python train.py`; `training` where there is no script (a notebook, a prompt)."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(main).stem if main and not main.startswith("<") else "training"  # `python -` calls it <stdin>


def _is_regular(error: BaseException) -> bool:
    """Whether a program that ends with this has done what it wanted."""
    return (isinstance(error, SystemExit) and error.code in (None, 0)) or isinstance(error, GeneratorExit)


def _too_short(session: Session, recording: VariantRecording) -> str:
    missing = [each for each in ("trace", "memory") if not recording.instrumented_s.get(each)]
    missing = [each for each in missing if getattr(session.wishes.schedule, each)]
    if len(recording.series) < session.wishes.schedule.timed:
        missing.insert(0, f"{session.wishes.schedule.timed - len(recording.series)} of the timed steps")
    what = ", ".join(missing) or "the last recording"
    return (
        f"the loop ended after {session.steps} steps, before all was recorded ({what} missing); record fewer steps "
        "(--warmup, --timed, --trace, --memory) or train for longer"
    )
