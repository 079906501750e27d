"""Runs everything that is done to a loop, step by step: one generator over all of its passes, resumed at every
boundary."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import median
from typing import Any, TypeVar

import torch.distributed as dist
from torch import nn

from perfkit.attach.host.budget import estimate_memory_cost_s
from perfkit.attach.host.profiler_turn import ProfilerTaken
from perfkit.attach.host.torch_log_level import log_errors_only
from perfkit.attach.live.live_watch import LiveWatch
from perfkit.attach.live.step_flops import StepFlops, count_step_flops
from perfkit.attach.live.trace_triggers import TraceTriggers
from perfkit.attach.loop.evaluation_modules import find_evaluation_modules
from perfkit.attach.loop.loop_follower import StepCounts
from perfkit.attach.loop.loop_hooks import LoopHooks
from perfkit.attach.loop.loop_stacks import sample_loop_stacks
from perfkit.attach.loop.router_watch import RouterWatch
from perfkit.attach.loop.step_timing import time_loop_steps
from perfkit.attach.loop_session import LoopSession
from perfkit.attach.variant_recording import VariantRecording
from perfkit.core.errors import UnavailableError
from perfkit.core.note import make_note
from perfkit.core.record.rank_record import ExpertLoad, RunStatus
from perfkit.core.units import format_percent, format_seconds
from perfkit.devices.accelerator import is_cpu
from perfkit.instruments.autograd_state import is_profiling
from perfkit.instruments.facts.recorded_collectives import count_recorded_bytes
from perfkit.instruments.lost_kernels import list_remarks
from perfkit.instruments.memory.allocator_access import explain_unreported
from perfkit.instruments.memory.allocator_history import record_allocator_history
from perfkit.instruments.memory.memory_recording import record_memory
from perfkit.instruments.open_ranges import OpenRangeError
from perfkit.instruments.pm_sampling import LOCKED_CLOCKS, start_sampling
from perfkit.instruments.recording import EndNow, Recording
from perfkit.instruments.trace_recording import MonitorError, count_lead_steps, record_trace
from perfkit.instruments.training.tensors import list_trained_blocks
from perfkit.instruments.warmup import is_steady
from perfkit.store.layout import HISTORY_FILE, MEMORY_FILE, TRACE_FILE
from perfkit.store.memory_file import write_allocations

T = TypeVar("T")

# The depth of modules that a program may call below the outermost (Lightning calls inside its module).
_DEEPEST = 4

# The longest wait before recording: meanwhile its hooks take some 0.1 ms per step.
_LONGEST_WAIT_S = 900.0

# How often a recording is tried that the program's own profiler cut, and after how long a wait for it stacks are
# sampled first.
_MOST_TRIES = 3
_SHORT_WAIT_S = 10.0

_BEGAN = "the program's own torch profiler started meanwhile"

OpenWatch = Callable[[LoopSession, StepFlops | None], tuple[LiveWatch, TraceTriggers]]


def record_passes(session: LoopSession, recording: VariantRecording, hooks: LoopHooks) -> Recording[None]:
    """Warm-up, timed steps, traced steps, steps whose allocations are recorded, and some whose stacks are sampled."""
    schedule = session.schedule
    yield from _warm_up(session, recording, hooks)
    recording.first_timed = session.steps
    session.profiler.seen = session.profiler.theirs
    yield from _time_steps(session, recording)
    if session.profiler.seen:
        recording.warnings.append(
            make_note("recording.profiler_on", "the program's own torch profiler slowed down timed steps")
        )
    session.write_timing(recording)
    begun = session.steps
    still_open = yield from _trace_steps(session, recording)
    yield from _wait_for_trace_steps(session, begun)
    if schedule.trace and schedule.memory:
        yield  # between two profilers
    unseen = explain_unreported(session.trained.device)
    if still_open:
        _add_warning(
            session, recording, "recording.open_range", f"memory was not recorded: {OpenRangeError(still_open)}"
        )
    elif schedule.memory and unseen is not None:
        _add_warning(session, recording, "recording.memory_unreported", f"memory was not recorded: {unseen}")
    elif schedule.memory and (reason := (yield from _explain_memory_cost(session, recording))):
        _add_warning(session, recording, "recording.memory_budget", f"memory was not recorded: {reason}")
    elif schedule.memory:
        yield from _record_memory_steps(session, recording)
    recording.recorder.update(status=RunStatus.OK, reason="")
    yield from _sample_stacks(session, recording)


def watch_loop(
    session: LoopSession, recording: VariantRecording, open_watch: OpenWatch, *, count: bool
) -> Recording[None]:
    """Watch the loop as long as it runs, and trace on request. With `count`, count a step's FLOPs first."""
    flops: StepFlops | None = None
    if count:
        flops = yield from count_step_flops(session.trained.models, session.loop.phases)
    watch, triggers = open_watch(session, flops)
    session.watch = watch
    evaluating = recording.series.evaluates
    loop = session.loop
    loop.sizing = False
    loop.take()
    watch.start(time.perf_counter_ns(), session.steps)
    while True:
        yield
        counts, now = loop.take(), time.perf_counter_ns()
        recording.peaks.look(counts, session.steps)
        if counts.captures or counts.new_models or (counts.evaluations and not evaluating):
            watch.skip(now)
        else:
            watch.step(now, counts.data_wait_ns if loop.fetches else None)
        reason = triggers.get_due_reason(watch.last)
        if reason is not None:
            triggers.mark_started(now)
            watch.write_event("trace", reason)
            yield from _skip_recording(watch, _capture_steps(session, reason))
            loop.take()
            watch.start(time.perf_counter_ns(), session.steps)


def _time_steps(session: LoopSession, recording: VariantRecording) -> Recording[None]:
    """The timed steps, with nothing on but the clock."""
    recording.begin_timing()
    yield from time_loop_steps(
        session.loop,
        session.trained.device,
        session.schedule.timed,
        recording.series,
        lambda counts: recording.peaks.look(counts, session.steps),
    )
    recording.end_timing()


def _sample_stacks(session: LoopSession, recording: VariantRecording) -> Recording[None]:
    """Sample Python's stacks, once, while nothing else is recorded."""
    if session.wishes.stacks_hz and not recording.sampled:
        recording.sampled = True
        timed_s = recording.series.wall_s()
        yield from sample_loop_stacks(
            recording.recorder.folder,
            session.wishes.stacks_hz,
            session.loop,
            median(timed_s) if timed_s else math.inf,
            evaluates=recording.series.evaluates,
        )


def _capture_steps(session: LoopSession, reason: str) -> Recording[None]:
    """Record the next steps separately: some timed, some traced."""
    recording = session.begin(f"{session.wishes.name}@step{session.steps}", reason)
    session.loop.sizing = True
    recording.steady, recording.first_timed = True, session.steps
    yield from _time_steps(session, recording)
    session.write_timing(recording)
    yield from _trace_steps(session, recording)
    session.loop.sizing = False
    yield from _sample_stacks(session, recording)
    session.end(recording, RunStatus.OK)


def _skip_recording(watch: LiveWatch, recording: Recording[None]) -> Recording[None]:
    """Run `recording` while the watch skips its steps; exceptions in the middle of a step are for the recording."""
    thrown: Exception | None = None
    while True:
        try:
            if thrown is None:
                next(recording)
            else:
                recording.throw(thrown)
        except StopIteration:
            if thrown is not None:
                yield  # the rest of that step
            return
        try:
            yield
        except (EndNow, ProfilerTaken) as error:
            thrown = error
        else:
            thrown = None
            watch.skip(time.perf_counter_ns())


def _warm_up(session: LoopSession, recording: VariantRecording, hooks: LoopHooks) -> Recording[None]:
    """Steps until steady, in which the modules that the program calls are found.

    Ranks cannot ask each other whether they are steady without a collective: several run the least number of steps,
    so that all pass on at the same one.
    """
    schedule = session.schedule
    most = schedule.warmup if session.world.size > 1 else max(schedule.warmup, schedule.max_warmup)
    warmup = recording.warmup
    loop = session.loop
    recording.peaks.begin(session.steps)
    look = partial(_look_while_warming_up, session, recording)
    loop.called.clear()
    loop.untrained = set()
    hooks.listen(_list_modules(session.roots, _DEEPEST))
    narrowed = False
    while len(warmup) < most and not recording.steady:
        narrowed = narrowed or _narrow_modules(session, hooks)
        step = time_loop_steps(loop, session.trained.device, 1, warmup, look)
        yield from step if warmup.counts else _watch_routers(session, recording, hooks, step)
        recording.steady = len(warmup) >= schedule.warmup and is_steady(warmup.wall_s())
    if not narrowed:
        _narrow_modules(session, hooks)
    listened = _list_called_modules(session)
    others = find_evaluation_modules(listened)
    loop.untrained = set(map(id, others))
    hooks.listen([*listened, *others])


def _watch_routers(
    session: LoopSession, recording: VariantRecording, hooks: LoopHooks, step: Recording[None]
) -> Recording[None]:
    """A step in which routers are looked at, within the calls that `hooks` listen to."""
    routers = RouterWatch()
    loads: tuple[ExpertLoad, ...] = ()
    try:
        routers.begin(session.roots, hooks.guard)
        yield from step
    finally:
        loads = routers.end()
    if loads:
        recording.recorder.update(expert_loads=loads)


def _look_while_warming_up(session: LoopSession, recording: VariantRecording, counts: StepCounts) -> None:
    recording.peaks.look(counts, session.steps, warms_up=True)


def _narrow_modules(session: LoopSession, hooks: LoopHooks) -> bool:
    """Listen to no more modules than the program calls itself; False where it has called none yet."""
    if not session.loop.called:
        return False
    listened = _list_called_modules(session)
    hooks.listen(listened)
    called = [module for module in listened if id(module) in session.loop.called]
    session.loop.largest = max(called, key=_count_parameters, default=None)
    return True


def _list_called_modules(session: LoopSession) -> list[nn.Module]:
    """The outermost modules, and those that the program has called itself."""
    called = [module for module in _list_modules(session.roots, _DEEPEST) if id(module) in session.loop.called]
    return list(dict.fromkeys([*session.roots, *called]))


def _list_modules(roots: Iterable[nn.Module], depth: int) -> list[nn.Module]:
    """`roots` and their submodules down to `depth` levels, each once; only those with parameters (a loss is not a
    model's forward pass)."""
    level, modules = list(roots), list(roots)
    for _ in range(depth):
        level = [child for module in level for child in module.children() if _count_parameters(child)]
        modules += level
    return list(dict.fromkeys(modules))


def _count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _record_memory_steps(session: LoopSession, recording: VariantRecording) -> Recording[None]:
    """Record the allocations of steps, or say why not."""

    def record() -> Recording[None]:
        try:
            with session.profiler.hold_profiler():
                yield from recording.run_instrumented(
                    "memory", _record_memory(session, recording), phases=True, steps=session.schedule.memory + 3
                )
        except EndNow:
            _add_warning(
                session,
                recording,
                "recording.memory_ended",
                f"memory was not recorded: {recording.ended_early['memory']}",
            )
        except OpenRangeError as error:
            _add_warning(session, recording, "recording.open_range", f"memory was not recorded: {error}")

    cut = ("recording.memory_profiler_began", f"memory was not recorded: {_BEGAN}")
    yield from _try_recording(session, recording, "memory", record, cut)


def _trace_steps(session: LoopSession, recording: VariantRecording) -> Recording[tuple[str, ...]]:
    """Trace steps, and find the program's ranges that may stay open beyond the next step."""
    if not session.schedule.trace:
        return ()
    cut = ("recording.trace_profiler_began", f"the trace was cut short: {_BEGAN}")
    open_ranges = yield from _try_recording(
        session, recording, "trace", lambda: _trace_steps_once(session, recording), cut
    )
    return open_ranges or ()


def _try_recording(
    session: LoopSession,
    recording: VariantRecording,
    purpose: str,
    record: Callable[[], Recording[T]],
    cut: tuple[str, str],
) -> Recording[T | None]:
    """Make a recording while the program's own profiler is off, again where that cuts it; None where it does so each
    time or stays on. `cut` is the warning then."""
    alone = _may_wait(session, recording)
    for _ in range(_MOST_TRIES if alone else 1):
        if not (yield from _wait_for_profiler(session, recording, purpose)):
            return None
        try:
            result = yield from record()
        except ProfilerTaken:
            recording.waiting = make_note(cut[0], cut[1], rank=session.world.rank)
        else:
            recording.waiting = None
            return result
    recording.waiting = None
    _add_warning(session, recording, *cut)
    return None


def _trace_steps_once(session: LoopSession, recording: VariantRecording) -> Recording[tuple[str, ...]]:
    count, path = session.schedule.trace, recording.recorder.folder / TRACE_FILE
    lead = count_lead_steps(session.trained.device, session.world.size)
    reason = recording.budget.check_begin()
    if reason:
        _add_warning(session, recording, "recording.trace_budget", f"no trace was recorded: {reason}")
        return ()
    monitor = _start_sampling(session, recording, count + lead) if session.wishes.pm_sampling else None
    steps = record_trace(count, path, device=session.trained.device, lead=lead, monitor=monitor)
    try:
        with session.profiler.hold_profiler():
            trace = yield from recording.run_instrumented("trace", steps, lead=lead, steps=count + lead)
    except EndNow:
        what = f"the trace has fewer steps than {count}" if path.exists() else "no trace was recorded"
        _add_warning(session, recording, "recording.trace_cut", f"{what}: in the middle of a step, {recording.cut}")
        return ()
    except MonitorError as error:
        _add_warning(session, recording, "recording.monitor_failed", f"no trace was recorded: {error}")
        return ()
    recording.recorder.update(trace_backend=trace.backend.name, trace_backend_reason=trace.backend.reason)
    if "trace" in recording.ended_early:
        _add_warning(
            session,
            recording,
            "recording.trace_ended",
            f"the trace has fewer steps than {count}: {recording.ended_early['trace']}",
        )
    if session.world.size > 1 and is_cpu(session.trained.device) and dist.is_initialized():
        recording.recorder.add_facts(count_recorded_bytes(trace.window, session.world.size))
    recording.warnings += list_remarks(trace.kernels, trace.session)  # report only: the loop cannot be traced again
    return trace.open_ranges


def _start_sampling(session: LoopSession, recording: VariantRecording, steps: int) -> Mapping[str, Any] | None:
    """The monitor's options for samples of the performance monitors; None where they cannot be read, with a warning."""
    timed = recording.series.wall_s()
    try:
        options = start_sampling(session.trained.device, steps * median(timed) if timed else math.inf)
    except UnavailableError as error:
        _add_warning(session, recording, "recording.no_counters", f"no counters were sampled: {error}")
        return None
    _add_warning(session, recording, "recording.locked_clocks", LOCKED_CLOCKS)
    return options


def _record_memory(session: LoopSession, recording: VariantRecording) -> Recording[None]:
    folder, trained = recording.recorder.folder, session.trained
    with log_errors_only():
        allocations = yield from record_memory(
            session.schedule.memory,
            trained,
            blocks=lambda: list_trained_blocks(trained),
            history=record_allocator_history(
                folder / HISTORY_FILE,
                trained.device,
                tell=lambda text: recording.warnings.append(make_note("recording.history_taken", text)),
            ),
        )
    write_allocations(folder / MEMORY_FILE, allocations)


def _explain_memory_cost(session: LoopSession, recording: VariantRecording) -> Recording[str]:
    """The reason not to record memory, from the cost of the trace; "" where it may be recorded.

    What only wants for time is waited for, since the share of it that recordings may take grows with the loop. Not by
    several ranks, each of which would begin at a step of its own.
    """
    budget = recording.budget
    if recording.cut:
        return "the trace exceeded the memory limit for recordings (--max-memory)"
    traced_steps = len(recording.instrumented_s.get("trace", ()))
    expected_s = estimate_memory_cost_s(recording.pauses_s.get("trace", 0.0), traced_steps, session.schedule.memory)
    reason = budget.check_begin(expected_s)
    wait_s = budget.compute_wait_s(expected_s)
    if not reason or not wait_s:
        return reason
    share = math.ceil(100 * budget.compute_share(expected_s)) / 100
    ways = [f"with --overhead {format_percent(share, 0)}"] if share <= 1 else []
    ways += [f"{format_seconds(wait_s)} later"] if math.isfinite(wait_s) else []
    reason += f"; it would have started {' or '.join(ways)}" if ways else ""
    if session.world.size > 1 or wait_s > _LONGEST_WAIT_S:
        return reason
    text = f"memory was not recorded before the loop ended: {reason}"
    recording.waiting = make_note("recording.memory_budget", text)
    yield from _sample_stacks(session, recording)
    while budget.compute_wait_s(expected_s):
        yield
    recording.waiting = None
    return budget.check_begin(expected_s)


def _wait_for_trace_steps(session: LoopSession, begun: int) -> Recording[None]:
    """Wait out the trace's steps on a rank whose trace ended early, so that all ranks record memory in the same steps.
    Ranks decide alone: a question would be one more thing for the program's ranks to wait for."""
    if session.world.size > 1 and session.schedule.trace:
        end = begun + session.schedule.trace + count_lead_steps(session.trained.device, session.world.size)
        while session.steps < end:
            yield


def _add_warning(session: LoopSession, recording: VariantRecording, id: str, warning: str) -> None:
    """Add a warning with the rank's number where there are several: ranks may differ."""
    text = f"rank {session.world.rank}: {warning}" if session.world.size > 1 else warning
    recording.warnings.append(make_note(id, text, rank=session.world.rank))


def _may_wait(session: LoopSession, recording: VariantRecording) -> bool:
    """True if the recording may wait for a profiler of the program's. Not of several ranks, each of which would begin
    at a step of its own, and not of a loop that is watched, which would be without its watch meanwhile."""
    return recording is session.main and session.world.size == 1


def _wait_for_profiler(session: LoopSession, recording: VariantRecording, purpose: str) -> Recording[bool]:
    """Wait until the program's own profiler is off, since torch has one: True once it is, False if it stays on."""
    text = f"no {purpose} was recorded: the program's own torch profiler was on"
    began, before = time.monotonic(), recording.waiting
    while session.profiler.theirs or is_profiling():
        waited_s = time.monotonic() - began
        if not _may_wait(session, recording) or waited_s > _LONGEST_WAIT_S:
            recording.waiting = None
            _add_warning(session, recording, "recording.profiler_busy", text)
            return False
        recording.waiting = make_note("recording.profiler_busy", text, rank=session.world.rank)
        if waited_s > _SHORT_WAIT_S:
            yield from _sample_stacks(session, recording)
        yield
    recording.waiting = before
    return True
