"""Reads the stacks that py-spy writes with `--format raw --threads --subprocesses --full-filenames`.

A line is `process PID:"COMMAND";...;thread (ID): NAME;CALL (FILE:LINE);...;CALL (FILE:LINE) SAMPLES`, a process within
each process that started it, the outermost call first. Without `--subprocesses` no process is named.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from perfkit.instruments.stacks.file_owners import find_owner
from perfkit.store.stacks import (
    DATA,
    LIBRARY,
    LOOP,
    OURS,
    PROGRAM,
    WORKER,
    SampledThread,
    StackCall,
    StackFunction,
    StackSamples,
)

# A function or method of this name, in a file whose path has this part.
_TELL = {
    ("_next_data", "torch/utils/data/dataloader.py"): DATA,
    ("__next__", "torch/utils/data/dataloader.py"): DATA,
    ("_call_impl", "torch/nn/modules/module.py"): "forward",
    ("backward", "torch/_tensor.py"): "backward",
    ("backward", "torch/autograd/__init__.py"): "backward",
    ("grad", "torch/autograd/__init__.py"): "backward",
}
_OPTIMIZERS, _SCHEDULES = "torch/optim/", "torch/optim/lr_scheduler.py"


def find_phase(calls: Iterable[tuple[str, str]]) -> str:
    """The phase of `calls`, names and files, the outermost first; "" where none tells.

    The innermost counts, since an optimizer may call forward and backward; but a model that runs within them is
    recomputed, or makes the data.
    """
    phase = ""
    for name, file in calls:
        candidate = _classify_call(name.rpartition(".")[2], file.replace("\\", "/"))
        if candidate and not (candidate == "forward" and phase in ("backward", DATA)):
            phase = candidate
    return phase


def _classify_call(name: str, file: str) -> str:
    if _OPTIMIZERS in file and not file.endswith(_SCHEDULES):
        return "" if name == "zero_grad" else "optimizer"
    return next((phase for (function, part), phase in _TELL.items() if name == function and file.endswith(part)), "")


MAIN = "MainThread"

_PROCESS = re.compile(r'(?:^|;)process (\d+):"')
_THREAD = re.compile(r"(?:^|;)thread \((?:0x)?([0-9A-Fa-f]+)\)(?:: ([^;]*))?;")
_CALL = re.compile(r"(.*?) \((.*):(\d+)\)", re.DOTALL)
# Another process's interpreter has its own standard library.
_STANDARD = re.compile(r"[/\\]lib[/\\]python3[^/\\]*[/\\]|[/\\]Lib[/\\]")
# Code that was made as text: by dataclasses, by compilers; of `python -c` the module is the program's.
_GENERATED = "<string>"
_LOOP_OF_WORKERS = "_worker_loop"

SeenCall = tuple[str, str, int]  # function, file and line
Seen = Counter[tuple[SeenCall, ...]]  # how often calls were seen, the outermost first


class ThreadId(NamedTuple):
    """A thread by its process, the system's number for it, and what the program calls it."""

    pid: int
    ident: str
    name: str


def read_collapsed(text: str, *, pid: int, hz: float, seconds: float, directory: str) -> tuple[SampledThread, ...]:
    """The threads, in the order of their first lines; `pid` is the process that was looked at, which runs in
    `directory`.

    A thread is `WORKER` where it runs the loop of a DataLoader's worker, else what the program calls it. A line that is
    none of a thread's stacks is left out.
    """
    return tuple(
        build_sampled_thread(thread, seen, hz=hz, seconds=seconds, directory=directory)
        for thread, seen in parse_stacks(text, pid).items()
    )


def read_loop(
    text: str, held: str, *, pid: int, thread: int, hz: float, seconds: float, directory: str
) -> tuple[SampledThread, ...]:
    """Read the training thread, by its native id, then loaders' workers. `held` has the samples of threads that held
    the GIL."""
    threads = parse_stacks(text, pid)
    trains = [key for key in threads if (key.pid, key.ident) == (pid, str(thread))]
    holding = parse_stacks(held, pid)
    tree = partial(build_sampled_thread, hz=hz, seconds=seconds, directory=directory)
    loop = [tree(key._replace(name=LOOP), threads[key], held=holding.get(key, Counter())) for key in trains]
    others = [tree(key, seen) for key, seen in threads.items() if key not in trains]
    return (*loop, *(sampled for sampled in others if sampled.thread == WORKER))


def parse_stacks(text: str, pid: int) -> dict[ThreadId, Seen]:
    """Parse the stacks of each thread; threads without a process id belong to process `pid`."""
    threads: dict[ThreadId, Seen] = {}
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        thread = _THREAD.search(stack)
        if thread is None or not count.isdecimal():
            continue
        processes = _PROCESS.findall(stack[: thread.start()])
        process = int(processes[-1]) if processes else pid
        named = ThreadId(process, thread[1], _name_thread(process, thread[1], thread[2] or ""))
        calls = _cut_worker_stack(tuple(_parse_call(call) for call in stack[thread.end() :].split(";")))
        threads.setdefault(named, Counter())[calls] += int(count)
    return threads


def _cut_worker_stack(calls: tuple[SeenCall, ...]) -> tuple[SeenCall, ...]:
    """Without what called the loop of a worker: one that was forked still has the stack of who made it."""
    loop = next((place for place, call in enumerate(calls) if call[0] == _LOOP_OF_WORKERS), 0)
    return calls[loop:]


def _name_thread(pid: int, ident: str, name: str) -> str:
    """Threads have names where a program has imported threading; Linux gives the main one the process's id."""
    return MAIN if ident == str(pid) else name or f"thread {ident}"


def _parse_call(text: str) -> SeenCall:
    match = _CALL.fullmatch(text)
    return (match[1], match[2], int(match[3])) if match else (text, "", 0)


def build_sampled_thread(
    thread: ThreadId, seen: Seen, *, hz: float, seconds: float, directory: str, held: Seen | None = None
) -> SampledThread:
    """The stacks as a tree, without perfkit's own calls of others: hooks that call on, the command that runs all."""
    functions: dict[tuple[str, str], int] = {}
    nodes: dict[tuple[int, int, int], int] = {}

    def taken(counts: Seen) -> tuple[StackSamples, ...]:
        sampled = []
        for calls, count in counts.items():
            node = -1
            for place, (function, file, line) in enumerate(calls):
                if _find_call_owner(function, file) == OURS and place < len(calls) - 1:
                    continue
                index = functions.setdefault((function, file), len(functions))
                node = nodes.setdefault((node, index, line), len(nodes))
            sampled.append(
                StackSamples(node=node, phase=find_phase((name, file) for name, file, _ in calls), count=count)
            )
        return tuple(sampled)

    all_of_them, holding = taken(seen), None if held is None else taken(held)
    worker = thread.name == MAIN and any(function == _LOOP_OF_WORKERS for function, _ in functions)
    return SampledThread(
        thread=WORKER if worker else thread.name,
        pid=thread.pid,
        directory=directory,
        hz=hz,
        seconds=seconds,
        functions=tuple(
            StackFunction(name=name, file=file, owner=_find_call_owner(name, file)) for name, file in functions
        ),
        calls=tuple(StackCall(parent=parent, function=function, line=line) for parent, function, line in nodes),
        stack_samples=all_of_them,
        lock_samples=holding,
    )


def _find_call_owner(function: str, file: str) -> str:
    if file == _GENERATED and function != "<module>":
        return LIBRARY
    owner = find_owner(file)
    return LIBRARY if owner == PROGRAM and (not file or _STANDARD.search(file)) else owner
