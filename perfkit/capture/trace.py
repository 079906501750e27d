"""Recording steps with torch.profiler."""

import errno
import gzip
import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from perfkit.capture.open_ranges import lasting, spans_of
from perfkit.capture.recording import Recording, same_thread
from perfkit.record import MARK_PREFIX, STEP_MARK

# What the range of a step is called that was not over when the loop was, and of one before those that are looked at.
CUT_STEP = MARK_PREFIX + "cut step"
LEAD_STEP = MARK_PREFIX + "lead step"

_STEP = re.compile(rb'"%s#(\d+)"' % STEP_MARK.encode())

Write = Callable[[Path], None]


def traced(count: int, path: Path, *, device: torch.device, lead: int = 0) -> Recording[tuple[str, ...]]:
    """Profile `count` steps, with the shapes of inputs, and write the Chrome trace (gzip) to `path`, atomically.

    Of a loop that ends earlier the steps that were whole by then are written, and no file if there was none. The step
    is whole after which the recording is resumed; what began after that is marked as `CUT_STEP`. Returns the names of
    the program's ranges that may be open for longer than another step (`perfkit.capture.open_ranges`).

    `lead` more steps are recorded before, which are marked as `LEAD_STEP`: starting the profiler takes each rank a time
    of its own, and in its first step the others wait for the last. They count as steps where no other was whole.
    """
    count += lead
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    whole, thread = 0, threading.get_ident()
    with profile(activities=activities, record_shapes=True) as profiler:
        try:
            while whole < count:
                yield
                whole += 1
        except GeneratorExit:
            if not whole:
                raise
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    same_thread(thread)

    def write(to: Path) -> None:
        profiler.export_chrome_trace(str(to))

    wanted = slice(lead if whole > lead else 0, whole if whole < count else None)
    _atomically(path, lambda to: _export(write, to, wanted))
    assert profiler.profiler is not None
    results = profiler.profiler.kineto_results
    assert results is not None, "the profiler has ended"
    return lasting(spans_of(results.experimental_event_tree()))


def _export(write: Write, path: Path, wanted: slice) -> None:
    """Write the trace (gzip) to `path`; of the marked steps only the wanted ones are called so."""
    plain = path.with_name(path.name.removesuffix(".gz"))
    try:
        write(plain)
        _check_end(plain)
        other = _other_names(plain, wanted) if wanted != slice(0, None) else {}
        with plain.open("rb") as lines, gzip.open(path, "wb") as packed:
            if other:
                packed.writelines(_STEP.sub(lambda found: other.get(found[0], found[0]), line) for line in lines)
            else:
                shutil.copyfileobj(lines, packed)
    finally:
        plain.unlink(missing_ok=True)


def _other_names(plain: Path, wanted: slice) -> dict[bytes, bytes]:
    """New names for the ranges of the steps before and after the wanted ones."""
    with plain.open("rb") as lines:
        numbers = sorted({int(found[1]) for line in lines if (found := _STEP.search(line))})
    names = dict.fromkeys(numbers[: wanted.start], LEAD_STEP)
    if wanted.stop is not None:
        names |= dict.fromkeys(numbers[wanted.stop :], CUT_STEP)
    return {b'"%s#%d"' % (STEP_MARK.encode(), number): b'"%s"' % name.encode() for number, name in names.items()}


def _check_end(plain: Path) -> None:
    """torch says nothing where the disk is full: the trace just ends somewhere."""
    with plain.open("rb") as trace:
        trace.seek(max(0, plain.stat().st_size - 16))
        if not trace.read().rstrip().endswith(b"}"):
            raise OSError(errno.ENOSPC, "the trace could not be written to its end; is the disk full?", str(plain))


def _atomically(path: Path, write: Write) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # torch compresses by the name's ending, so the temporary name keeps it.
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
