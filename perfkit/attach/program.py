"""What is done to a loop, step by step: one generator over all of its passes, resumed at every boundary."""

import math
import time
from collections.abc import Callable, Iterable
from statistics import median

import torch
from torch import nn

from perfkit.attach.budget import memory_cost_s
from perfkit.attach.hooks import LoopHooks
from perfkit.attach.live.flops import StepFlops, counted
from perfkit.attach.live.triggers import Triggers
from perfkit.attach.live.watch import LiveWatch
from perfkit.attach.profilers import ProfilerTaken
from perfkit.attach.quiet import only_errors
from perfkit.attach.session import LoopSession
from perfkit.attach.stacks import stacks
from perfkit.attach.timing import timed
from perfkit.attach.variant import VariantRecording
from perfkit.instruments.lost_kernels import remarks
from perfkit.instruments.memory.allocator import unreported
from perfkit.instruments.memory.history import allocator_history
from perfkit.instruments.memory.record import recorded
from perfkit.instruments.open_ranges import OpenRangeError
from perfkit.instruments.recording import EndNow, Recording
from perfkit.instruments.tensors import trained_blocks
from perfkit.instruments.trace import lead_steps, traced
from perfkit.instruments.warmup import is_steady
from perfkit.record import RunStatus
from perfkit.store.layout import HISTORY_FILE, MEMORY_FILE, TRACE_FILE
from perfkit.store.memory_file import write_allocations
from perfkit.units import format_percent, format_seconds

# How deep the modules that a program calls may lie below the outermost (Lightning calls what is inside of its module).
_DEEPEST = 4

# So long a recording waits for the loop to have lasted long enough: its hooks take some 0.1 ms a step meanwhile.
_LONGEST_WAIT_S = 900.0

_BEGAN = "the program's own torch profiler began meanwhile"

OpenWatch = Callable[[LoopSession, StepFlops | None], tuple[LiveWatch, Triggers]]


def program(session: LoopSession, recording: VariantRecording, hooks: LoopHooks) -> Recording[None]:
    """Warm-up, timed steps, traced steps, steps whose allocations are recorded, and some whose stacks are sampled."""
    schedule = session.schedule
    yield from _warm_up(session, recording, hooks)
    recording.first_timed = session.steps
    session.profiler.seen = session.profiler.theirs
    yield from _timed(session, recording)
    if session.profiler.seen:
        recording.warnings.append("the program's own torch profiler was on during timed steps, which takes time")
    session.write_timing(recording)
    begun = session.steps
    still_open = yield from _trace(session, recording)
    yield from _as_the_other_ranks(session, begun)
    if schedule.trace and schedule.memory:
        yield  # between two profilers
    unseen = unreported(session.trained.device)
    if still_open:
        _tell(session, recording, f"no memory was recorded: {OpenRangeError(still_open)}")
    elif schedule.memory and unseen is not None:
        _tell(session, recording, f"no memory was recorded: {unseen}")
    elif schedule.memory and (reason := (yield from _too_dear(session, recording))):
        _tell(session, recording, f"no memory was recorded: {reason}")
    elif schedule.memory and _profiler_is_free(session, recording, "memory"):
        try:
            with session.profiler.hold_profiler():
                yield from recording.run_instrumented(
                    "memory", _memory(session, recording), phases=True, steps=schedule.memory + 3
                )
        except EndNow:
            _tell(session, recording, f"no memory was recorded: {recording.ended_early['memory']}")
        except ProfilerTaken:
            _tell(session, recording, f"no memory was recorded: {_BEGAN}")
        except OpenRangeError as error:
            _tell(session, recording, f"no memory was recorded: {error}")
    recording.recorder.update(status=RunStatus.OK, reason="")
    yield from _stacks(session, recording)


def watched(
    session: LoopSession, recording: VariantRecording, open_watch: OpenWatch, *, count: bool
) -> Recording[None]:
    """The loop is watched for as long as it runs; what asks for it is traced. With `count` a step's FLOPs are counted
    first."""
    flops: StepFlops | None = None
    if count:
        flops = yield from counted(session.trained.models)
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
        if counts.captures or (counts.evaluations and not evaluating):
            watch.skip(now)
        else:
            watch.step(now, counts.data_wait_ns if loop.fetches else None)
        reason = triggers.get_due_reason(watch.last)
        if reason is not None:
            triggers.mark_started(now)
            watch.write_event("trace", reason)
            yield from _skipped(watch, _capture(session, reason))
            loop.take()
            watch.start(time.perf_counter_ns(), session.steps)


def _timed(session: LoopSession, recording: VariantRecording) -> Recording[None]:
    """The timed steps, with nothing on but the clock."""
    recording.begin_timing()
    yield from timed(session.loop, session.trained.device, session.schedule.timed, recording.series)
    recording.end_timing()


def _stacks(session: LoopSession, recording: VariantRecording) -> Recording[None]:
    """Sample Python's stacks, once, while nothing else is recorded."""
    if session.wishes.stacks_hz and not recording.sampled:
        recording.sampled = True
        timed_s = recording.series.wall_s()
        yield from stacks(
            recording.recorder.folder,
            session.wishes.stacks_hz,
            session.loop,
            median(timed_s) if timed_s else math.inf,
            evaluates=recording.series.evaluates,
        )


def _capture(session: LoopSession, reason: str) -> Recording[None]:
    """A recording of its own of the next steps: some timed, some traced."""
    recording = session.begin(f"{session.wishes.name}@step{session.steps}", reason)
    session.loop.sizing = True
    recording.steady, recording.first_timed = True, session.steps
    yield from _timed(session, recording)
    session.write_timing(recording)
    yield from _trace(session, recording)
    session.loop.sizing = False
    yield from _stacks(session, recording)
    session.end(recording, RunStatus.OK)


def _skipped(watch: LiveWatch, recording: Recording[None]) -> Recording[None]:
    """`recording`, whose steps the watch does not measure; what is thrown in the middle of one is for the recording."""
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
    loop.called.clear()
    hooks.listen(_down_to(session.roots, _DEEPEST))
    narrowed = False
    while len(warmup) < most and not recording.steady:
        narrowed = narrowed or _narrow(session, hooks)
        yield from timed(loop, session.trained.device, 1, warmup)
        recording.steady = len(warmup) >= schedule.warmup and is_steady(warmup.wall_s())
    if not narrowed and not _narrow(session, hooks):
        hooks.listen(session.roots)


def _narrow(session: LoopSession, hooks: LoopHooks) -> bool:
    """Listen to no more modules than the program calls itself; False where it has called none yet."""
    if not session.loop.called:
        return False
    called = [module for module in _down_to(session.roots, _DEEPEST) if id(module) in session.loop.called]
    hooks.listen(list(dict.fromkeys([*session.roots, *called])))
    session.loop.largest = max(called, key=_size, default=None)
    return True


def _down_to(roots: Iterable[nn.Module], depth: int) -> list[nn.Module]:
    """`roots` and what is inside of them, down to `depth` modules deep, each once; only what holds parameters (a loss
    is no forward pass of a model)."""
    level, modules = list(roots), list(roots)
    for _ in range(depth):
        level = [child for module in level for child in module.children() if _size(child)]
        modules += level
    return list(dict.fromkeys(modules))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _trace(session: LoopSession, recording: VariantRecording) -> Recording[tuple[str, ...]]:
    """Trace, and tell which ranges of the program may be open for longer than the next step."""
    count, path = session.schedule.trace, recording.recorder.folder / TRACE_FILE
    if not count or not _profiler_is_free(session, recording, "trace"):
        return ()
    lead = lead_steps(session.trained.device, session.world.size)
    reason = recording.budget.check_begin()
    if reason:
        _tell(session, recording, f"no trace was recorded: {reason}")
        return ()
    steps = traced(count, path, device=session.trained.device, lead=lead)
    try:
        with session.profiler.hold_profiler():
            trace = yield from recording.run_instrumented("trace", steps, lead=lead, steps=count + lead)
    except ProfilerTaken:
        _tell(session, recording, f"the trace was cut short: {_BEGAN}")
        return ()
    except EndNow:
        what = f"the trace has fewer steps than {count}" if path.exists() else "no trace was recorded"
        _tell(session, recording, f"{what}: in the middle of a step {recording.cut}")
        return ()
    if "trace" in recording.ended_early:
        _tell(session, recording, f"the trace has fewer steps than {count}: {recording.ended_early['trace']}")
    recording.warnings += remarks(trace.kernels, trace.session)  # only told: the loop is not ours to trace again
    return trace.open_ranges


def _memory(session: LoopSession, recording: VariantRecording) -> Recording[None]:
    folder, trained = recording.recorder.folder, session.trained
    with only_errors():
        allocations = yield from recorded(
            session.schedule.memory,
            trained,
            blocks=lambda: trained_blocks(trained),
            history=allocator_history(folder / HISTORY_FILE, trained.device, tell=recording.warnings.append),
        )
    write_allocations(folder / MEMORY_FILE, allocations)


def _too_dear(session: LoopSession, recording: VariantRecording) -> Recording[str]:
    """Why memory must not be recorded, from what the trace has cost; "" where it may.

    What only wants for time is waited for, since the share of it that recordings may take grows with the loop. Not by
    several ranks, each of which would begin at a step of its own.
    """
    budget = recording.budget
    if recording.cut:
        return "the trace did not fit into the memory that recordings may take (--max-memory)"
    traced_steps = len(recording.instrumented_s.get("trace", ()))
    expected_s = memory_cost_s(recording.pauses_s.get("trace", 0.0), traced_steps, session.schedule.memory)
    reason = budget.check_begin(expected_s)
    wait_s = budget.compute_wait_s(expected_s)
    if not reason or not wait_s:
        return reason
    share = math.ceil(100 * budget.compute_share(expected_s)) / 100
    ways = [f"with --overhead {format_percent(share, 0)}"] if share <= 1 else []
    ways += [f"{format_seconds(wait_s)} later"] if math.isfinite(wait_s) else []
    reason += f"; it would have begun {' or '.join(ways)}" if ways else ""
    if session.world.size > 1 or wait_s > _LONGEST_WAIT_S:
        return reason
    recording.waiting = f"no memory was recorded: {reason}, when the loop had ended"
    yield from _stacks(session, recording)
    while budget.compute_wait_s(expected_s):
        yield
    recording.waiting = ""
    return budget.check_begin(expected_s)


def _as_the_other_ranks(session: LoopSession, begun: int) -> Recording[None]:
    """Of several ranks one whose trace ended early waits out its steps, so that all record memory in the same ones.
    Ranks decide alone and ask nobody: a question would be one more thing that the program's ranks wait for."""
    if session.world.size > 1 and session.schedule.trace:
        end = begun + session.schedule.trace + lead_steps(session.trained.device, session.world.size)
        while session.steps < end:
            yield


def _tell(session: LoopSession, recording: VariantRecording, warning: str) -> None:
    """Ranks may fare differently: of several the warning names its own."""
    recording.warnings.append(f"rank {session.world.rank}: {warning}" if session.world.size > 1 else warning)


def _profiler_is_free(session: LoopSession, recording: VariantRecording, purpose: str) -> bool:
    """torch has one profiler; the program's own goes first."""
    busy = session.profiler.theirs or torch._C._autograd._profiler_enabled()
    if busy:
        _tell(session, recording, f"no {purpose} was recorded: the program's own torch profiler was on")
    return not busy
