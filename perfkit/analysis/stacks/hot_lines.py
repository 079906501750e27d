"""The lines in which sampled threads were."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from perfkit.analysis.model.stacks import HotLine, HotPlace, LoopStacks, ThreadStacks
from perfkit.analysis.stacks.activities import measure_activities
from perfkit.store.stacks import (
    DATA,
    LIBRARY,
    LOOP,
    OURS,
    PROGRAM,
    WORKER,
    SampledStacks,
    SampledThread,
    StackCall,
    StackSamples,
)

_MOST = 20  # lines that are told
_NAMED = 3  # that a finding names
# With fewer a share of 10 % is anything from nothing to a quarter.
LEAST_SAMPLES = 30

# Where a loader's worker waits for a request.
_ASKED = ("Queue.get", "multiprocessing/queues.py")

Line = tuple[str, str]  # function and place


def summarize_loop_stacks(ranks: Iterable[SampledStacks]) -> LoopStacks | None:
    """Summarize the threads of all ranks; None without samples."""
    sampled = list(ranks)
    if not sampled:
        return None
    every = [thread for rank in sampled for thread in rank.threads if thread.stack_samples]
    seconds = sum(rank.seconds for rank in sampled)
    failed = sum(rank.failed_samples for rank in sampled)
    count = sum(sample.count for thread in every for sample in (*thread.stack_samples, *(thread.lock_samples or ())))
    return LoopStacks(
        loop=summarize_thread_stacks([thread for thread in every if thread.thread == LOOP]),
        workers=summarize_thread_stacks([thread for thread in every if thread.thread == WORKER]),
        sampling_cost=sum(rank.cost_s for rank in sampled) / seconds if seconds else 0.0,
        failed_share=failed / (count + failed) if failed else 0.0,
        other_steps_share=max(rank.other_steps_share for rank in sampled),
        reason=next((rank.reason for rank in sampled if rank.reason), ""),
        activities=measure_activities(thread for thread in every if thread.thread == LOOP),
    )


def summarize_thread_stacks(threads: Sequence[SampledThread]) -> ThreadStacks | None:
    """Merge threads that do the same work; None without any, or if they only waited for work."""
    counts = _SampleCounts()
    for thread in threads:
        for sample in thread.stack_samples:
            counts.add(thread, sample)
        for sample in thread.lock_samples or ():
            counts.hold(thread, sample)
    if not counts.samples:
        return None
    counts.looked_for_lock = all(thread.lock_samples is not None for thread in threads)
    return ThreadStacks(
        processes=len({(thread.pid, place) for place, thread in enumerate(threads)}),
        samples=counts.samples,
        idle_samples=counts.idle,
        seconds=sum(thread.seconds for thread in threads),
        hz=threads[0].hz,
        lock_share=min(1.0, counts.share(counts.held.total())) if counts.looked_for_lock else None,
        perfkit_share=counts.share(counts.ours),
        unnamed_share=counts.share(counts.unnamed),
        phases={phase: counts.share(count) for phase, count in sorted(counts.phases.items())},
        lines=tuple(counts.build_hot_line(line) for line, _ in counts.within.most_common(_MOST)),
        libraries=tuple(
            HotLine(
                function=line[0],
                place=line[1],
                share=counts.share(count),
                self_share=counts.share(count),
                total_share=counts.share(counts.total[line]),
            )
            for line, count in counts.libraries.most_common(_MOST)
        ),
        python_lines=counts.list_hot_places(counts.python),
        data_lines=counts.list_hot_places(counts.data),
    )


class _SampleCounts:
    """Samples by location."""

    def __init__(self) -> None:
        self.samples = self.idle = self.ours = self.unnamed = 0
        self.looked_for_lock = False
        self.held: Counter[Line | None] = Counter()  # the same with the lock held, None for no line of the program
        self.phases: Counter[str] = Counter()
        self.within: Counter[Line] = Counter()  # the program's innermost line
        self.itself: Counter[Line] = Counter()
        self.total: Counter[Line] = Counter()
        self.libraries: Counter[Line] = Counter()
        self.python: Counter[Line] = Counter()
        self.data: Counter[Line] = Counter()
        self._inside: dict[Line, Counter[str]] = {}

    def add(self, thread: SampledThread, sample: StackSamples) -> None:
        calls, count = list(thread.stack(sample.node)), sample.count
        owners = [thread.functions[call.function].owner for call in calls]
        if _is_waiting_for_batch(thread, calls) and PROGRAM not in owners:
            self.idle += count
            return
        self.samples += count
        self.phases[sample.phase] += count
        if owners and owners[0] == OURS:
            self.ours += count
            return
        lines = [_locate_call(thread, call) for call in calls]
        for line in set(lines):
            self.total[line] += count
        if owners and owners[0] == LIBRARY:
            self.libraries[lines[0]] += count
        own = _find_program_line(thread, calls)
        if own is None:
            self.unnamed += count
            return
        self.within[own] += count
        if lines[0] == own:
            self.itself[own] += count
        else:
            self._inside.setdefault(own, Counter())[lines[0][0]] += count
        if sample.phase == DATA:
            self.data[own] += count

    def hold(self, thread: SampledThread, sample: StackSamples) -> None:
        calls = list(thread.stack(sample.node))
        ours = bool(calls) and thread.functions[calls[0].function].owner == OURS
        own = None if ours else _find_program_line(thread, calls)
        self.held[own] += sample.count
        if own is not None and sample.phase != DATA:
            self.python[own] += sample.count

    def share(self, count: int) -> float:
        return count / self.samples

    def build_hot_line(self, line: Line) -> HotLine:
        inside = self._inside.get(line)
        return HotLine(
            function=line[0],
            place=line[1],
            share=self.share(self.within[line]),
            self_share=self.share(self.itself[line]),
            total_share=self.share(self.total[line]),
            lock_share=min(1.0, self.held[line] / self.within[line]) if self.looked_for_lock else None,
            library_function=inside.most_common(1)[0][0] if inside else "",
        )

    def list_hot_places(self, counted: Counter[Line]) -> tuple[HotPlace, ...]:
        return tuple(
            HotPlace(function=function, place=place, share=self.share(count))
            for (function, place), count in counted.most_common(_NAMED)
        )


def _is_waiting_for_batch(thread: SampledThread, calls: Sequence[StackCall]) -> bool:
    if thread.thread != WORKER:
        return False
    functions = (thread.functions[call.function] for call in calls)
    return any(
        (function.name, PurePath(function.file).as_posix()[-len(_ASKED[1]) :]) == _ASKED for function in functions
    )


def _find_program_line(thread: SampledThread, calls: Sequence[StackCall]) -> Line | None:
    """The program's innermost line."""
    return next(
        (_locate_call(thread, call) for call in calls if thread.functions[call.function].owner == PROGRAM),
        None,
    )


def _locate_call(thread: SampledThread, call: StackCall) -> Line:
    function = thread.functions[call.function]
    return function.name, f"{_shorten_path(function.file, thread.directory)}:{call.line}"


def _shorten_path(file: str, directory: str) -> str:
    """Relative to where the program ran; of an installed package from its name on."""
    path = PurePath(file)
    if path.is_relative_to(directory):
        return path.relative_to(directory).as_posix()
    for folder in ("site-packages", "dist-packages"):
        if folder in path.parts:
            return PurePath(*path.parts[path.parts.index(folder) + 1 :]).as_posix()
    return "/".join(path.parts[-2:]) if len(path.parts) > 2 else file
