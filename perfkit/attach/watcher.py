"""Watches one loop, from adding the hooks to writing the results."""

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from traceback import TracebackException

from torch.optim import Optimizer

from perfkit.attach.host.delivery import Delivery
from perfkit.attach.host.guard import LOG, Guard
from perfkit.attach.host.launcher_env import read_rank
from perfkit.attach.host.logger import Logger
from perfkit.attach.host.profiler_turn import ProfilerTaken
from perfkit.attach.host.run_folder import remove_unused
from perfkit.attach.host.run_report import send_report, wait_for_ranks, write_report
from perfkit.attach.host.thread_end import ThreadEnd
from perfkit.attach.loop.evaluation_modules import find_evaluation_modules, list_inner_modules
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.attach.loop.loop_hooks import LoopHooks
from perfkit.attach.loop.phase_marks import follow_marks
from perfkit.attach.loop.step_finder import StepFinder
from perfkit.attach.loop_session import LoopOptions, LoopSession
from perfkit.attach.recording_plan import record_passes, watch_loop
from perfkit.attach.variant_recording import VariantRecording
from perfkit.attach.wall_time.ledger import Part
from perfkit.attach.wall_time.run_hooks import RunHooks
from perfkit.attach.watch_setup import WatchOptions, create_watch
from perfkit.core.note import Note, make_note
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.texts.error_text import format_first_line, format_traceback
from perfkit.instruments.autograd_state import is_in_backward
from perfkit.instruments.failure_status import classify_error
from perfkit.instruments.recording import EndNow, Recording

_KINETO_LEVEL, _KINETO_SILENT = "KINETO_LOG_LEVEL", "6"


@dataclass(frozen=True)
class WatcherOptions:
    """Options for a loop, besides those of its recordings."""

    wishes: LoopOptions
    optimizers: Sequence[Optimizer]
    step_every: int | None
    report: bool
    loggers: Sequence[Logger]
    live: WatchOptions | None


class LoopWatcher:
    """Watches one loop, once. Everything but `begin` and `finish` is called by hooks, behind the guard.

    Attributes:
        guard: what stands between the program and perfkit.
        session: what is known of the loop.
        active: whether hooks are there.
    """

    def __init__(self, order: WatcherOptions, *, by_hand: bool, at_exit: Callable[[], None]) -> None:
        self.guard = Guard(self._switch_off)
        self.active = False
        self._order = order
        self._at_exit = at_exit
        loop = LoopFollower(StepFinder(order.step_every), self._handle_boundary)
        loop.by_hand = by_hand
        loop.within = self._check_memory
        self.session = LoopSession(order.wishes, loop)
        self._hooks = LoopHooks(loop, self.guard)
        self._run_hooks = RunHooks(self.session.ledger, self.guard)
        self._roots = self.session.roots
        self._deliveries: tuple[Delivery, ...] = ()
        self._program: Recording[None] | None = None
        self._searches = -1
        self._began = 0  # the step at which recording began, or began anew
        self._unfinished = False  # the loop's thread ended while there was more to record
        self._thread_end = ThreadEnd()

    def begin(self) -> None:
        """Put the hooks. Fails where the folder cannot be made: now, when it can be seen."""
        if read_rank() == 0:
            self._order.wishes.folder.mkdir(parents=True, exist_ok=True)
        # Kineto's log messages are not the program's output.
        os.environ.setdefault(_KINETO_LEVEL, _KINETO_SILENT)
        for optimizer in self._order.optimizers:
            self.session.loop.add_optimizer(optimizer)
        self.active = True
        self._run_hooks.install()
        self._hooks.install()
        self.session.profiler.install(self.guard, self._give_way)
        follow_marks(self.session.loop.phases)
        atexit.register(self._at_exit)

    def finish(self, error: BaseException | None, *, elsewhere: bool = False) -> None:
        """Write the results; `error` is what ended the loop, None for a normal end. With `elsewhere`, a missing loop is
        not reported."""
        session = self.session
        session.ledger.close()
        if error is None or isinstance(error, SystemExit):
            session.loop.settle()
        unfinished = (self._unfinished or self._program is not None) and session.watch is None
        self._close_program()
        recording = session.main
        if recording is None:
            remove_unused(self._order.wishes.folder)
            if error is None and not elsewhere:
                LOG.warning("nothing was recorded: %s", _explain_no_steps(self._order.wishes.name, os.times()))
            return
        regular = error is None or _is_regular(error)
        status = RunStatus.OK if error is None or regular else classify_error(error)
        reason = "" if error is None or regular else format_first_line(error)
        if unfinished and regular and recording.recorder.record.status != RunStatus.OK:  # else but stacks are missing
            recording.warnings.append(recording.waiting or _explain_missing(session, recording, self._began))
        text = "" if error is None or regular else format_traceback(TracebackException.from_exception(error))
        if session.watch is not None:
            session.watch.close(reason or "the loop ended")
        session.end(recording, status, reason, text)
        written = False
        if self._order.report and session.world.rank == 0:
            wait_for_ranks(recording.folder, session.world.size)
            if status == RunStatus.OK:
                session.calibrate()
            written = write_report(session.folder)
            if written and status == RunStatus.OK and session.remeasure_ceilings():
                written = write_report(session.folder)
        if session.watch is None:
            for delivery in self._deliveries:
                delivery.scalars(session.steps, session.collect_figures(recording))
        send_report(self._deliveries, session.folder if written else None)

    def let_go(self) -> None:
        """Remove the hooks and release the trained model."""
        self._roots = ()
        self._remove_hooks()
        self._run_hooks.remove()
        self.session.let_go()
        atexit.unregister(self._at_exit)

    def _handle_boundary(self) -> None:
        with self.session.ledger.within(Part.RECORDING):
            self._pass_boundary()
        if self.session.roots is not self._roots:
            self._roots = self.session.roots
            self._run_hooks.follow_models(inner for root in self._roots for inner in list_inner_modules(root))

    def _pass_boundary(self) -> None:
        session = self.session
        if session.is_capturing():
            # Captured work does not run, so it is not a step; an event, a wait or a profiler would void the capture.
            session.loop.counts.captures += 1
            return
        self._run_hooks.end_step()
        session.unmark_step()
        session.steps += 1
        recording = session.main or self._open_recording()
        if session.loop.has_new_model:
            self._follow_new_model(recording)
        self._restart_program(recording)
        if self._program is not None and self._resume_program(self._program, None):
            session.mark_step()

    def _open_recording(self) -> VariantRecording:
        recording = self.session.open()
        if self.session.world.rank == 0:
            self._deliveries = tuple(Delivery(logger) for logger in self._order.loggers)
        return recording

    def _give_way(self) -> None:
        """The program's own profiler is about to begin, and one of ours is on."""
        self._cut_recording(ProfilerTaken())

    def _check_memory(self) -> None:
        """End a recording in the middle of a step if it exceeds its memory, except where ending a profiler would break
        the current work: a backward pass, a CUDA graph capture."""
        session = self.session
        if not session.profiler.ours or is_in_backward() or session.is_capturing():
            return
        reason = session.budget.check_memory()
        if reason:
            self._cut_recording(EndNow(reason))

    def _cut_recording(self, error: Exception) -> None:
        """End the current recording in the middle of a step."""
        self.session.loop.phases.end()
        if self._program is not None:
            self._resume_program(self._program, error)
        self.session.unmark_step()

    def _resume_program(self, program: Recording[None], error: Exception | None) -> bool:
        """Resume the recording program, with `error` if any; returns True if it wants to be resumed again."""
        with self.session.profiler.mark_own_calls():
            try:
                if error is None:
                    next(program)
                else:
                    program.throw(error)
            except StopIteration:
                self._program = None
                self._remove_hooks()
                self.session.let_go()
                self._roots = ()
        return self._program is not None

    def _restart_program(self, recording: VariantRecording) -> None:
        """Restart where a new optimizer shows that the detected steps may have been parts of steps."""
        session = self.session
        searches = session.loop.finder.searches
        if searches == self._searches:
            return
        if self._program is None or not (recording.instrumented_s or session.watch):
            self._close_program()
            if not session.loop.by_hand:
                session.steps -= session.loop.finder.surplus
            self._began = session.steps
            recording.reset_recording(session.look())
            self._program = self._run_passes(recording)
            if threading.current_thread() is not threading.main_thread():
                self._thread_end.call(self._handle_thread_end)
        elif not recording.sampled:
            text = "an optimizer stepped for the first time while steps were recorded"
            recording.warnings.append(make_note("recording.new_optimizer", text))
        self._searches = searches

    def _follow_new_model(self, recording: VariantRecording) -> None:
        """Go on recording with the model that has taken the place of another."""
        session = self.session
        if session.profiler.ours:
            text = "an optimizer stepped for the first time while steps were recorded"
            recording.warnings.append(make_note("recording.new_optimizer", text))
        recording.follow_model(session.look())
        others = find_evaluation_modules(session.roots)
        session.loop.has_new_model = False
        session.loop.untrained = set(map(id, others))
        session.loop.largest = next(iter(session.roots), None)
        self._hooks.listen([*session.roots, *others])

    def _run_passes(self, recording: VariantRecording) -> Recording[None]:
        yield from record_passes(self.session, recording, self._hooks)
        live = self._order.live
        if live is not None:
            open_watch = partial(create_watch, live, self._deliveries)
            yield from watch_loop(self.session, recording, open_watch, count=live.flops_per_step is None)

    def _handle_thread_end(self) -> None:
        self.guard(self._finish_thread)

    def _finish_thread(self) -> None:
        """The thread whose loop is recorded ends: nothing follows, and its profiler must end on it."""
        self.session.loop.settle()
        self._unfinished = self._program is not None
        self._close_program()
        self._remove_hooks()

    def _switch_off(self) -> None:
        self._remove_hooks()
        self._run_hooks.remove()
        try:
            self._close_program()
        finally:
            if self.session.watch is not None:
                self.session.watch.abandon()
            self.session.let_go()
            self.session.abandon(self.guard.reason)

    def _close_program(self) -> None:
        running, self._program = self._program, None
        if running is not None:
            with self.session.profiler.mark_own_calls():
                running.close()
        self.session.unmark_step()

    def _remove_hooks(self) -> None:
        if self.active:
            self._hooks.remove()
            self.session.profiler.remove()
            follow_marks(None)
        self.active = False


def _explain_no_steps(name: str, times: os.times_result) -> str:
    """The reason that no step was seen, from CPU times of this process and of its children that have ended."""
    if times.children_user + times.children_system > times.user + times.system:
        return (
            f"no optimizer step was seen in {name} itself, and its child processes (torch.multiprocessing) are not "
            "watched; start the ranks with torchrun, or call perfkit.profile in each child"
        )
    return (
        f"no optimizer step was seen in {name}; call the profile's step() once a step, or name a function with "
        "--step-function"
    )


def _is_regular(error: BaseException) -> bool:
    """True if a program that ends with this has ended normally."""
    return (isinstance(error, SystemExit) and error.code in (None, 0)) or isinstance(error, GeneratorExit)


def _explain_missing(session: LoopSession, recording: VariantRecording, began: int) -> Note:
    missing = [instrument for instrument in ("trace", "memory") if not recording.instrumented_s.get(instrument)]
    missing = [instrument for instrument in missing if getattr(session.schedule, instrument)]
    if len(recording.series) < session.schedule.timed:
        missing.insert(0, f"{session.schedule.timed - len(recording.series)} of the timed steps")
    what = ", ".join(missing) or "the last recording"
    restarted = f", {session.steps - began} after another optimizer restarted the recording" if began > 1 else ""
    text = (
        f"the loop ended after {session.steps} detected steps{restarted}, before all was recorded ({what} missing); "
        "record fewer steps (--warmup, --timed, --trace, --memory) or train for longer"
    )
    return make_note("recording.loop_ended", text, steps=session.steps)
