"""Formats sampled stacks for flame graph tools."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from perfkit.store.stacks import SampledThread, StackCall

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class WeightedStack(NamedTuple):
    """Frames, outermost first, each a name or (name, file, line), and the stack's weight."""

    frames: Sequence[str | tuple[str, str, int]]
    weight: float


class StackProfile(NamedTuple):
    """Stacks that belong together; `unit` is one of speedscope's: `none`, `milliseconds` ..."""

    name: str
    unit: str
    stacks: Sequence[WeightedStack]


def encode_speedscope(threads: Sequence[SampledThread]) -> bytes:
    """A file for https://www.speedscope.app: a profile a thread, with samples as weights."""
    return encode_speedscope_profiles(
        [StackProfile(f"{thread.thread} {thread.pid}", "none", _list_stacks(thread)) for thread in threads]
    )


def encode_speedscope_profiles(profiles: Sequence[StackProfile]) -> bytes:
    """The same of any profiles."""
    frames: dict[str | tuple[str, str, int], int] = {}
    entries = [
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
    content = {"$schema": _SCHEMA, "exporter": "perfkit", "shared": {"frames": known}, "profiles": entries}
    return msgspec.json.encode(content)


def _list_stacks(thread: SampledThread) -> list[WeightedStack]:
    return [
        WeightedStack([_make_frame(thread, call) for call in thread.stack(sample.node)][::-1], sample.count)
        for sample in thread.stack_samples
    ]


def _make_frame(thread: SampledThread, call: StackCall) -> tuple[str, str, int]:
    function = thread.functions[call.function]
    return function.name, function.file, call.line
