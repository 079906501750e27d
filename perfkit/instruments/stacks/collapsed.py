"""Reads the stacks that py-spy writes with `--format raw --threads --subprocesses --full-filenames`.

A line is `process PID:"COMMAND";...;thread (ID): NAME;CALL (FILE:LINE);...;CALL (FILE:LINE) SAMPLES`, a process within
each process that started it, the outermost call first.
"""

import re
from collections import Counter

from perfkit.instruments.stacks.owners import owner_of
from perfkit.store.stacks import LIBRARY, UNTOLD, WORKER, Call, SampledThread, StackFunction, Taken

MAIN = "MainThread"

_PROCESS = re.compile(r'(?:^|;)process (\d+):"')
_THREAD = re.compile(r";thread \((?:0x)?([0-9A-Fa-f]+)\)(?:: ([^;]*))?;")
_CALL = re.compile(r"(.*?) \((.*):(\d+)\)", re.DOTALL)
# The interpreter of another process has a standard library of its own.
_STANDARD = re.compile(r"[/\\]lib[/\\]python3[^/\\]*[/\\]|[/\\]Lib[/\\]")
_LOOP_OF_WORKERS = "_worker_loop"


def read_collapsed(text: str, *, hz: float, seconds: float, directory: str) -> tuple[SampledThread, ...]:
    """The threads, in the order of their first lines; `directory` is where the process runs.

    A thread is `WORKER` where it runs the loop of a DataLoader's worker, else what the program calls it. A line that is
    none of a thread's stacks is left out.
    """
    stacks: dict[tuple[int, str, str], Counter[tuple[tuple[str, str, int], ...]]] = {}
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        thread = _THREAD.search(stack)
        if thread is None or not count.isdecimal():
            continue
        processes = _PROCESS.findall(stack[: thread.start()])
        if processes:
            named = (int(processes[-1]), thread[1], thread[2] or "")
            calls = tuple(_call(call) for call in stack[thread.end() :].split(";"))
            stacks.setdefault(named, Counter())[calls] += int(count)
    return tuple(
        _sampled(pid, _name(pid, ident, name), found, hz=hz, seconds=seconds, directory=directory)
        for (pid, ident, name), found in stacks.items()
    )


def _name(pid: int, ident: str, name: str) -> str:
    """Threads have names where a program has imported threading; Linux gives the main one the process's id."""
    return MAIN if ident == str(pid) else name or f"thread {ident}"


def _call(text: str) -> tuple[str, str, int]:
    found = _CALL.fullmatch(text)
    return (found[1], found[2], int(found[3])) if found else (text, "", 0)


def _sampled(
    pid: int,
    name: str,
    stacks: Counter[tuple[tuple[str, str, int], ...]],
    *,
    hz: float,
    seconds: float,
    directory: str,
) -> SampledThread:
    functions: dict[tuple[str, str], int] = {}
    nodes: dict[tuple[int, int, int], int] = {}
    taken = []
    for calls, count in stacks.items():
        node = -1
        for function, file, line in calls:
            place = functions.setdefault((function, file), len(functions))
            node = nodes.setdefault((node, place, line), len(nodes))
        taken.append(Taken(node=node, phase="", lock=UNTOLD, count=count))
    worker = name == MAIN and any(function == _LOOP_OF_WORKERS for function, _ in functions)
    return SampledThread(
        thread=WORKER if worker else name,
        pid=pid,
        directory=directory,
        hz=hz,
        seconds=seconds,
        functions=tuple(StackFunction(name=name, file=file, owner=_owner(file)) for name, file in functions),
        calls=tuple(Call(parent=parent, function=function, line=line) for parent, function, line in nodes),
        taken=tuple(taken),
    )


def _owner(file: str) -> str:
    return LIBRARY if not file or _STANDARD.search(file) else owner_of(file)
