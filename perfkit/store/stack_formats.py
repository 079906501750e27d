"""Sampled stacks in the format that tools for flame graphs read."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from perfkit.store.stacks import Call, SampledThread

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class Stack(NamedTuple):
    """Frames, the outermost first, each a name or (name, file, line), and what the stack weighs."""

    frames: Sequence[str | tuple[str, str, int]]
    weight: float


class Profile(NamedTuple):
    """Stacks that belong together; `unit` is one of speedscope's: `none`, `milliseconds` ..."""

    name: str
    unit: str
    stacks: Sequence[Stack]


def speedscope(threads: Sequence[SampledThread]) -> bytes:
    """A file for https://www.speedscope.app: a profile a thread, with samples as weights."""
    return speedscope_of([Profile(f"{thread.thread} {thread.pid}", "none", _stacks(thread)) for thread in threads])


def speedscope_of(profiles: Sequence[Profile]) -> bytes:
    """The same of any profiles."""
    frames: dict[str | tuple[str, str, int], int] = {}
    told = [
        {
            "type": "sampled",
            "name": profile.name,
            "unit": profile.unit,
            "startValue": 0,
            "endValue": sum(stack.weight for stack in profile.stacks),
            "samples": [[frames.setdefault(frame, len(frames)) for frame in stack.frames] for stack in profile.stacks],
            "weights": [stack.weight for stack in profile.stacks],
        }
        for profile in profiles
    ]
    known = [{"name": f} if isinstance(f, str) else {"name": f[0], "file": f[1], "line": f[2]} for f in frames]
    content = {"$schema": _SCHEMA, "exporter": "perfkit", "shared": {"frames": known}, "profiles": told}
    return msgspec.json.encode(content)


def _stacks(thread: SampledThread) -> list[Stack]:
    return [
        Stack([_frame(thread, call) for call in thread.stack(taken.node)][::-1], taken.count) for taken in thread.taken
    ]


def _frame(thread: SampledThread, call: Call) -> tuple[str, str, int]:
    function = thread.functions[call.function]
    return function.name, function.file, call.line
