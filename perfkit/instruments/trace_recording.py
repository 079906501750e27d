"""Recording steps with torch.profiler."""

import errno
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from isal import igzip
from torch.profiler import ProfilerActivity, profile

from perfkit.core.record.trace_marks import MARK_PREFIX, STEP_MARK
from perfkit.devices.accelerator import get_accelerator
from perfkit.instruments.lost_kernels import KernelCount, count_kernels
from perfkit.instruments.open_ranges import find_open_ranges, list_spans
from perfkit.instruments.profiler_backend import (
    KINETO,
    MONITOR,
    ProfilerBackend,
    choose_backend,
    make_config,
    mark_failed,
)
from perfkit.instruments.profiler_sessions import count_session
from perfkit.instruments.recording import EndNow, Recording, check_same_thread

# What the range of a step is called that was not over when the loop was, and of one before those that are looked at.
CUT_STEP = MARK_PREFIX + "cut step"
LEAD_STEP = MARK_PREFIX + "lead step"

_STEP = re.compile(rb'"%s#(\d+)"' % STEP_MARK.encode())

# A trace is packed while the loop stands still: gzip as Python has it takes 13 us an event, igzip less than one.
_COMPRESSION = 1
_PART_BYTES = 2**20

Write = Callable[[Path], None]


class MonitorError(RuntimeError):
    """CUPTI's monitor recorded nothing."""


class TimeWindow(NamedTuple):
    """`steps` whole steps, from and to these times of the system's clock."""

    began_ns: int
    ended_ns: int
    steps: int


class RecordedTrace(NamedTuple):
    """Result of a recording besides its trace.

    Attributes:
        open_ranges: the program's ranges that may be open for longer than another step (`open_ranges`).
        kernels: how many were launched and lost; None on a CPU and where nothing tells.
        session: the how-manieth recording of a GPU it was in this process, from 1; 0 on a CPU.
        window: when the steps were that count.
        backend: what recorded the GPU.
    """

    open_ranges: tuple[str, ...] = ()
    kernels: KernelCount | None = None
    session: int = 0
    window: TimeWindow = TimeWindow(0, 0, 0)
    backend: ProfilerBackend = ProfilerBackend(KINETO)


def count_lead_steps(device: torch.device, world_size: int = 1) -> int:
    """Count the steps to record before those that count.

    With several ranks one: the profiler's start-up time differs between ranks, and in its first step the others wait
    for the last. On a GPU always one: CUPTI from CUDA 12.6 update 2 until before 13.1 loses records at the head of a
    session (pytorch#192021, see `perfkit.devices.cupti`). An empty session beforehand does not help: the losses grow
    from session to session, the ids of CUDA graphs are right only in the first, and sessions after an empty one were
    seen to record nothing (CUDA 13.0 with torch 2.13, lightseekorg/tokenspeed#1348).
    """
    return int(get_accelerator(device).activity != "" or world_size > 1)


def record_trace(
    count: int, path: Path, *, device: torch.device, lead: int = 0, monitor: Mapping[str, Any] | None = None
) -> Recording[RecordedTrace]:
    """Profile `count` steps, with the shapes of inputs, and write the Chrome trace (gzip) to `path`, atomically.

    Of a loop that ends earlier the steps that were whole by then are written, and no file if there was none. The step
    is whole after which the recording is resumed; what began after that is marked as `CUT_STEP`.

    `EndNow` ends it with the steps until then.

    `lead` more steps are recorded before (`count_lead_steps`), which are marked as `LEAD_STEP`. They count as steps
    where no other was whole. `monitor` are options of CUPTI's monitor, which then records where it can
    run (`choose_backend`); without them Kineto does.

    A `MonitorError` where the monitor wrote nothing: this process then records with Kineto.
    """
    count += lead
    accelerator = get_accelerator(device)
    on_gpu = accelerator.activity != ""
    activities = [ProfilerActivity.CPU] + ([getattr(ProfilerActivity, accelerator.activity)] if on_gpu else [])
    session = count_session() if on_gpu else 0
    whole, thread = 0, threading.get_ident()
    began_ns = time.time_ns()
    backend = choose_backend(device, monitored=monitor is not None)
    config = make_config(backend, dict(monitor or {}))
    with profile(activities=activities, record_shapes=True, experimental_config=config) as profiler:
        try:
            while whole < count:
                yield
                whole += 1
                if whole == lead:
                    began_ns = time.time_ns()
        except EndNow:
            whole += 1
        except GeneratorExit:
            if not whole:
                raise
        window = TimeWindow(began_ns, time.time_ns(), whole - lead if whole > lead else whole)
        if on_gpu:
            accelerator.runtime.synchronize(device)

    check_same_thread(thread)

    def write(to: Path) -> None:
        profiler.export_chrome_trace(str(to))
        if backend.name == MONITOR:
            _unpack_monitored(to)

    wanted = slice(lead if whole > lead else 0, whole if whole < count else None)
    _write_atomically(path, lambda to: _export_trace(write, to, wanted))
    assert profiler.profiler is not None
    results = profiler.profiler.kineto_results
    assert results is not None, "the profiler has ended"
    # Kineto's results have no kernels of the monitor: what it lost is found in the trace.
    kernels = count_kernels(results.events(), wanted) if on_gpu and backend.name == KINETO else None
    open_ranges = find_open_ranges(list_spans(results.experimental_event_tree()))
    return RecordedTrace(open_ranges, kernels, session, window, backend)


def _unpack_monitored(plain: Path) -> None:
    """Unpack a trace of CUPTI's monitor, which is always compressed, to `plain`; a `MonitorError` if there is none."""
    packed = plain.with_name(f"{plain.name}.gz")
    if not packed.exists():
        mark_failed("it wrote no trace")
        raise MonitorError("CUPTI's monitor wrote no trace; later recordings of this process take Kineto")
    with igzip.open(packed, "rb") as source, plain.open("wb") as target:  # type: ignore[no-untyped-call]
        shutil.copyfileobj(source, target, _PART_BYTES)
    packed.unlink()


def _export_trace(write: Write, path: Path, wanted: slice) -> None:
    """Write the trace (gzip) to `path`; of the marked steps only the wanted ones are called so."""
    plain = path.with_name(path.name.removesuffix(".gz"))
    write(plain)
    _check_end(plain)
    other = _rename_steps(plain, wanted) if wanted != slice(0, None) else {}
    with (
        plain.open("rb") as file,
        igzip.open(path, "wb", compresslevel=_COMPRESSION) as packed,  # type: ignore[no-untyped-call]
    ):
        if other:
            for part in _read_parts(file):
                packed.write(_STEP.sub(lambda mark: other.get(mark[0], mark[0]), part))
        else:
            shutil.copyfileobj(file, packed, _PART_BYTES)


def _read_parts(file: BinaryIO) -> Iterator[bytes]:
    """The whole lines of a file, many at a time."""
    while part := file.read(_PART_BYTES):
        yield part + file.readline()


def _rename_steps(plain: Path, wanted: slice) -> dict[bytes, bytes]:
    """New names for the ranges of the steps before and after the wanted ones."""
    with plain.open("rb") as file:
        numbers = sorted({int(mark[1]) for part in _read_parts(file) for mark in _STEP.finditer(part)})
    names = dict.fromkeys(numbers[: wanted.start], LEAD_STEP)
    if wanted.stop is not None:
        names |= dict.fromkeys(numbers[wanted.stop :], CUT_STEP)
    return {b'"%s#%d"' % (STEP_MARK.encode(), number): b'"%s"' % name.encode() for number, name in names.items()}


def _check_end(plain: Path) -> None:
    """torch says nothing where the disk is full: the trace just ends somewhere."""
    with suppress(FileNotFoundError), plain.open("rb") as trace:
        trace.seek(max(0, plain.stat().st_size - 16))
        if trace.read().rstrip().endswith(b"}"):
            return
    for file in plain.parent.iterdir():
        os.truncate(file, 0)  # Kineto keeps it open, so that it would go on taking the disk
    raise OSError(errno.ENOSPC, "the trace could not be written completely; is the disk full?", str(plain))


def _write_atomically(path: Path, write: Write) -> None:
    """Have `write` write into a new folder, in which others can leave no link for Kineto to follow.

    Kineto leaves what it could not write whole, under another name: that goes with the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".trace-", dir=path.parent) as folder:
        temporary = Path(folder) / f".{path.name}"  # torch compresses by the name's ending
        write(temporary)
        temporary.replace(path)
