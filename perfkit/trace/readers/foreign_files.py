"""Files that are no traces: what each is, and what to do with it."""

import re
from typing import NamedTuple

_RECORD = "record steps with torch.profiler and analyze what export_chrome_trace writes"


class ForeignKind(NamedTuple):
    """A kind of file by the beginning of its text, or by the end of its name where the format has no mark of its own,
    and the hint: what it is, and what to do."""

    begins: re.Pattern[bytes] | None
    suffixes: tuple[str, ...]
    hint: str


_KINDS = (
    ForeignKind(
        re.compile(rb'\s*\{\s*"(?:segments|device_traces)"\s*:'),
        (),
        "a snapshot of allocated memory: use `perfkit memory`",
    ),
    ForeignKind(
        re.compile(rb"\x80[\x02-\x05]|PAR1"),
        (),
        "not a trace: `perfkit memory` reads snapshots of torch.cuda.memory and recordings of perfkit",
    ),
    ForeignKind(
        re.compile(rb'\s*\{\s*"schema"\s*:\s*"[^"]*"\s*,(?:(?!"traceEvents").){,4096}?"nodes"\s*:\s*\[', re.DOTALL),
        (".et",),
        "an execution trace (Chakra), whose ops have no times: analyze the torch.profiler trace recorded with it",
    ),
    ForeignKind(
        re.compile(rb"SQLite format 3\x00(?!.*(?:StringIds|CUPTI_ACTIVITY|NVTX_EVENTS))", re.DOTALL),
        (),
        "an SQLite database that is no export of Nsight Systems: it has no CUDA or NVTX events",
    ),
    ForeignKind(
        None,
        (".qdrep", ".qdstrm"),
        "a report of an older Nsight Systems: export it (nsys export --type sqlite FILE) and analyze the .sqlite file",
    ),
    ForeignKind(
        re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*\d+\s*,\s*\d+\s*,"),
        (),
        "lists of numbers, no events: `perfkit memory` reads raw memory timelines of torch.profiler",
    ),
    ForeignKind(
        re.compile(rb"version https://git-lfs\.github\.com/spec/"),
        (),
        "a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`",
    ),
    ForeignKind(
        re.compile(rb"V\d{4} \d\d:\d\d:\d\d\.\d+ \d+ torch/"),
        (),
        f"a log of torch's compiler (TORCH_TRACE), which tlparse shows: {_RECORD}",
    ),
    ForeignKind(
        None,
        (".ncu-rep",),
        "a report of Nsight Compute: export it (ncu --import FILE --csv --page raw) and pass it with --counters",
    ),
)
_TEXT = re.compile(rb"\s*[\[{]")


def find_foreign_hint(name: str, head: bytes) -> str:
    """What a file of this name and beginning is and what to do with it, empty where it may be a trace."""
    plain = name.lower().removesuffix(".gz").removesuffix(".zst")
    for kind in _KINDS:
        if kind.begins is not None and kind.begins.match(head):
            return kind.hint
        if plain.endswith(kind.suffixes) and not _TEXT.match(head):
            return kind.hint
    return ""
