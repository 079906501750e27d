"""Sampled stacks in the two formats that tools for flame graphs read."""

from collections.abc import Iterable, Sequence

import msgspec

from perfkit.store.stacks import Call, SampledThread

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def collapsed(threads: Iterable[SampledThread]) -> str:
    """A line a stack, the outermost call first, with its samples: what flamegraph.pl and speedscope read.

    The first frame is the thread, the second the phase of the step, where there is one.
    """
    lines = []
    for thread in threads:
        for taken in thread.taken:
            calls = [_named(thread, call) for call in reversed(list(thread.stack(taken.node)))]
            frames = [f"{thread.thread} {thread.pid}", *([f"[{taken.phase}]"] if taken.phase else []), *calls]
            lines.append(f"{';'.join(frame.replace(';', ':') for frame in frames)} {taken.count}\n")
    return "".join(lines)


def speedscope(threads: Sequence[SampledThread]) -> bytes:
    """A file for https://www.speedscope.app: a profile a thread, with samples as weights."""
    frames: dict[tuple[str, str, int], int] = {}
    profiles = []
    for thread in threads:
        stacks = [[_frame(frames, thread, call) for call in thread.stack(taken.node)][::-1] for taken in thread.taken]
        profiles.append(
            {
                "type": "sampled",
                "name": f"{thread.thread} {thread.pid}",
                "unit": "none",
                "startValue": 0,
                "endValue": thread.samples,
                "samples": stacks,
                "weights": [taken.count for taken in thread.taken],
            }
        )
    known = [{"name": name, "file": file, "line": line} for name, file, line in frames]
    content = {"$schema": _SCHEMA, "exporter": "perfkit", "shared": {"frames": known}, "profiles": profiles}
    return msgspec.json.encode(content)


def _frame(frames: dict[tuple[str, str, int], int], thread: SampledThread, call: Call) -> int:
    function = thread.functions[call.function]
    return frames.setdefault((function.name, function.file, call.line), len(frames))


def _named(thread: SampledThread, call: Call) -> str:
    function = thread.functions[call.function]
    return f"{function.name} ({function.file}:{call.line})"
