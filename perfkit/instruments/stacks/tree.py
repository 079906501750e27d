"""Samples of a stack, kept as a tree of calls whose size is bounded."""

import os
from pathlib import Path
from types import CodeType, FrameType

from perfkit.instruments.stacks.owners import owner_of
from perfkit.store.stacks import OURS, Call, SampledThread, StackFunction, Taken

# Of calls within calls the innermost so many; a recursion may be a thousand deep.
DEEPEST = 128
# Different stacks of a training take some thousands; past this bound samples count for the callers they share.
MOST_NODES = 20_000

# A place in a program: its code and the instruction. The line of it takes longer to find than the rest of a sample.
Place = tuple[CodeType, int]


class StackTree:
    """Grows by a node for every place in which a caller was first seen; see `SampledThread`.

    Attributes:
        cut: samples that found no room.
    """

    def __init__(self, most: int = MOST_NODES, deepest: int = DEEPEST) -> None:
        self.cut = 0
        self._most = most
        self._deepest = deepest
        # By identity: the hash of a code object is that of all it holds, and takes longer than the rest.
        self._codes: dict[int, CodeType] = {}
        self._children: dict[tuple[int, int, int], int] = {}
        self._taken: dict[tuple[int, str, str], int] = {}

    def add(self, path: list[Place], phase: str, lock: str, count: int) -> None:
        """Count `count` samples of `path`, its innermost place first."""
        node = -1
        children = self._children
        for code, instruction in reversed(path):
            key = (node, id(code), instruction)
            known = children.get(key)
            if known is None:
                if len(children) >= self._most:
                    self.cut += count
                    break
                self._codes[id(code)] = code
                known = children[key] = len(children)
            node = known
        taken = (node, phase, lock)
        self._taken[taken] = self._taken.get(taken, 0) + count

    def path(self, frame: FrameType | None, outermost: CodeType | None = None) -> list[Place]:
        """Where `frame` and those that called it are, the innermost first, up to `outermost` and without it."""
        path: list[Place] = []
        while frame is not None and len(path) < self._deepest and frame.f_code is not outermost:
            path.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return path

    def sampled(self, *, thread: str, hz: float, seconds: float) -> SampledThread:
        """All that was counted, with lines in place of instructions, and without perfkit's own calls of others."""
        functions: dict[tuple[str, str], int] = {}
        owners: list[str] = []
        codes: dict[int, int] = {}
        merged: dict[tuple[int, int, int], int] = {}
        place: list[int] = []  # of each node among the merged
        inner = {node for node, _, _ in self._taken}
        for node, (parent, code_id, instruction) in enumerate(self._children):
            code = self._codes[code_id]
            function = codes.get(code_id)
            if function is None:
                name = (code.co_qualname, code.co_filename)
                function = codes[code_id] = functions.setdefault(name, len(functions))
                if function == len(owners):
                    owners.append(owner_of(code.co_filename))
            above = -1 if parent < 0 else place[parent]
            if owners[function] == OURS and node not in inner:
                place.append(above)  # a hook that calls on, or the command that runs the program
                continue
            key = (above, function, line_of(code, instruction))
            place.append(merged.setdefault(key, len(merged)))
        counts: dict[tuple[int, str, str], int] = {}
        for (node, phase, lock), count in self._taken.items():
            taken = (-1 if node < 0 else place[node], phase, lock)
            counts[taken] = counts.get(taken, 0) + count
        return SampledThread(
            thread=thread,
            pid=os.getpid(),
            directory=str(Path.cwd()),
            hz=hz,
            seconds=seconds,
            functions=tuple(
                StackFunction(name=name, file=file, owner=owner)
                for (name, file), owner in zip(functions, owners, strict=True)
            ),
            calls=tuple(Call(parent=parent, function=function, line=line) for parent, function, line in merged),
            taken=tuple(
                Taken(node=node, phase=phase, lock=lock, count=count) for (node, phase, lock), count in counts.items()
            ),
            cut=self.cut,
        )


def line_of(code: CodeType, instruction: int) -> int:
    """The line of an instruction, the function's first where the compiler knows of none."""
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return code.co_firstlineno if line is None else line
    return code.co_firstlineno
