"""The lines in which sampled threads were."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from perfkit.analysis.model.stacks import HotLine, HotPlace, LoopStacks, ThreadStacks
from perfkit.store.stacks import FREE, HELD, LIBRARY, LOOP, OURS, PROGRAM, WORKER, Call, SampledThread, Taken

_MOST = 20  # lines that are told
_NAMED = 3  # that a finding names
# With fewer a share of 10 % is anything from nothing to a quarter.
LEAST_SAMPLES = 30

# Where a loader's worker waits to be asked for a batch.
_ASKED = ("Queue.get", "multiprocessing/queues.py")

Line = tuple[str, str]  # function and place


def hot_stacks(threads: Iterable[SampledThread]) -> LoopStacks | None:
    """What the threads of all ranks come to; None where none was sampled."""
    every = [thread for thread in threads if thread.taken]
    if not every:
        return None
    return LoopStacks(
        loop=thread_stacks([thread for thread in every if thread.thread == LOOP]),
        workers=thread_stacks([thread for thread in every if thread.thread == WORKER]),
    )


def thread_stacks(threads: Sequence[SampledThread]) -> ThreadStacks | None:
    """Threads that do the same, as one; None where there is none, or they only waited for work."""
    counts = _Counts()
    for thread in threads:
        for taken in thread.taken:
            counts.add(thread, taken)
    if not counts.samples:
        return None
    seconds = sum(thread.seconds for thread in threads)
    told = counts.locks[HELD] + counts.locks[FREE]
    return ThreadStacks(
        processes=len({(thread.pid, place) for place, thread in enumerate(threads)}),
        samples=counts.samples,
        idle=counts.idle,
        seconds=seconds,
        hz=threads[0].hz,
        held=counts.locks[HELD] / told if told else None,
        ours=counts.share(counts.ours),
        unnamed=counts.share(counts.unnamed),
        phases={phase: counts.share(count) for phase, count in sorted(counts.phases.items())},
        lines=tuple(counts.hot(line) for line, _ in counts.within.most_common(_MOST)),
        libraries=tuple(
            HotLine(
                function=line[0],
                place=line[1],
                share=counts.share(count),
                itself=counts.share(count),
                total=counts.share(counts.total[line]),
            )
            for line, count in counts.libraries.most_common(_MOST)
        ),
        python=counts.places(counts.python),
        data=counts.places(counts.data),
        cost=sum(thread.cost_s for thread in threads) / seconds if seconds else 0.0,
        lock=sum(thread.lock_s for thread in threads) / seconds if seconds else 0.0,
        late=sum(thread.late for thread in threads) / (counts.samples + counts.idle),
        late_s=max(thread.late_s for thread in threads),
    )


class _Counts:
    """Samples by what they were in."""

    def __init__(self) -> None:
        self.samples = self.idle = self.ours = self.unnamed = 0
        self.locks: Counter[str] = Counter()
        self.phases: Counter[str] = Counter()
        self.within: Counter[Line] = Counter()  # the program's innermost line
        self.itself: Counter[Line] = Counter()
        self.total: Counter[Line] = Counter()
        self.libraries: Counter[Line] = Counter()
        self.python: Counter[Line] = Counter()
        self.data: Counter[Line] = Counter()
        self._locks: Counter[tuple[Line, str]] = Counter()
        self._inside: dict[Line, Counter[str]] = {}

    def add(self, thread: SampledThread, taken: Taken) -> None:
        calls, count = list(thread.stack(taken.node)), taken.count
        owners = [thread.functions[call.function].owner for call in calls]
        if _waits(thread, calls) and PROGRAM not in owners:
            self.idle += count
            return
        self.samples += count
        self.locks[taken.lock] += count
        self.phases[taken.phase] += count
        if owners and owners[0] == OURS:
            self.ours += count
            return
        lines = [_line(thread, call) for call in calls]
        for line in set(lines):
            self.total[line] += count
        if owners and owners[0] == LIBRARY:
            self.libraries[lines[0]] += count
        own = next((line for line, owner in zip(lines, owners, strict=True) if owner == PROGRAM), None)
        if own is None:
            self.unnamed += count
            return
        self.within[own] += count
        self._locks[own, taken.lock] += count
        if lines[0] == own:
            self.itself[own] += count
        else:
            self._inside.setdefault(own, Counter())[lines[0][0]] += count
        if taken.phase == "data":
            self.data[own] += count
        elif taken.lock == HELD:
            self.python[own] += count

    def share(self, count: int) -> float:
        return count / self.samples

    def hot(self, line: Line) -> HotLine:
        held, free = self._locks[line, HELD], self._locks[line, FREE]
        inside = self._inside.get(line)
        return HotLine(
            function=line[0],
            place=line[1],
            share=self.share(self.within[line]),
            itself=self.share(self.itself[line]),
            total=self.share(self.total[line]),
            held=held / (held + free) if held + free else None,
            inside=inside.most_common(1)[0][0] if inside else "",
        )

    def places(self, counted: Counter[Line]) -> tuple[HotPlace, ...]:
        return tuple(
            HotPlace(function=function, place=place, share=self.share(count))
            for (function, place), count in counted.most_common(_NAMED)
        )


def _waits(thread: SampledThread, calls: Sequence[Call]) -> bool:
    if thread.thread != WORKER:
        return False
    functions = (thread.functions[call.function] for call in calls)
    return any((each.name, PurePath(each.file).as_posix()[-len(_ASKED[1]) :]) == _ASKED for each in functions)


def _line(thread: SampledThread, call: Call) -> Line:
    function = thread.functions[call.function]
    return function.name, f"{_shown(function.file, thread.directory)}:{call.line}"


def _shown(file: str, directory: str) -> str:
    """Relative to where the program ran; of an installed package from its name on."""
    path = PurePath(file)
    if path.is_relative_to(directory):
        return path.relative_to(directory).as_posix()
    for folder in ("site-packages", "dist-packages"):
        if folder in path.parts:
            return PurePath(*path.parts[path.parts.index(folder) + 1 :]).as_posix()
    return "/".join(path.parts[-2:]) if len(path.parts) > 2 else file
