"""Reads a file's processes and threads: which are devices, and whose work an event on them is."""

import re
from dataclasses import dataclass
from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.core.files import JSON_ERRORS
from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.model import NONE, Ints


class ThreadLane(IntEnum):
    """The kind of events without a category, by their thread."""

    HOST = 0  # by their names
    WORK = 1  # work of a device
    SUMMARY = 2  # of a device's work, which its writer shows a second time by module, step, name ...
    OPS = 3  # ops on the CPU, whatever their name
    CALLS = 4  # calls of a device's runtime
    XLA_HOST = 5  # CPU events of XLA's profiler: only those that name an HLO op are ops


# XLA's and TensorFlow's profilers, labels of Kineto, converters of Nsight Systems. A longer number is none of a device,
# and would not fit into a column.
_DEVICE = re.compile(
    r"/device:(?!CPU)(\w+):(\d{1,18})(?!\d)|^(?:GPU|XPU|HPU|MTIA|TPU|NPU|Device) ?(\d{1,18})\b", re.IGNORECASE
)
# torch's profiler before Kineto: a thread for each device.
_ALL_DEVICES = re.compile(r"(?!CPU)[A-Z]+ functions")
# Ascend's profiler. What the links do is shown apart, and there as tasks of each link a second time.
_ASCEND, _ASCEND_LINKS = "Ascend Hardware", ("Communication", "HCCL")
_LINK_THREAD = "Communication"
_HOST_LANES = (
    (re.compile(r"CPU functions"), ThreadLane.OPS),
    (re.compile(r"CANN"), ThreadLane.CALLS),
    (re.compile(r"/host:\w+"), ThreadLane.XLA_HOST),
    (re.compile(r".*/device:\w+:\d+ (Compute|Tensors)"), ThreadLane.OPS),  # TensorFlow 1: when ops were dispatched
)
# TensorFlow 1 shows what each stream ran once more for all of them together.
_TF_STREAM, _TF_ALL = "/stream:", "/stream:all"
_STREAM_THREAD = re.compile(r"stream\s*#?(\d{1,18})(?!\d)", re.IGNORECASE)
# ROCm's older profilers show the copies of all GPUs as one process.
_ROCM_COPIES = "COPY"
# Tracks of ROCm's profiler in Perfetto's format. A copy to the CPU is a GPU's work, and the track does not name which.
_ROCM_TRACK = re.compile(r"(?:COMPUTE|COPY to) \w+ \[(\d{1,4})\] (?:STREAM|QUEUE|THREAD) \[(\d{1,18})\] \((GPU|CPU)\)")
_XLA_OPS, _XLA_STEPS = "XLA Ops", "Steps"


@dataclass(frozen=True)
class ThreadInfo:
    """The statements of a file about its threads, one entry for each.

    Attributes:
        names: the thread's name, empty where there is none.
        device: the number of the device that the thread stands for; NONE for threads of the host.
        stream: the stream that a device's thread stands for; NONE where its name does not tell.
        lane: a `ThreadLane`.
        labels: of the processes, names and labels.
        nests: whether what lies within other work on it is part of that (the body of a loop, a range's kernels), and
            not beside it.
    """

    names: list[str]
    device: Ints
    stream: Ints
    lane: NDArray[np.int8]
    nests: NDArray[np.bool_]
    labels: frozenset[str] = frozenset()


def read_thread_info(threads: list[tuple[str, str]], stated: list[tuple[int, str, bytes]]) -> ThreadInfo:
    """Read the statements (thread, `process_name` or the like, JSON) about threads ((process, thread) as written)."""
    names = [""] * len(threads)
    processes = {process: [process] for process, _ in threads}
    for thread, kind, raw in stated:
        text = _decode_text(raw)
        if kind == "thread_name":
            names[thread] = text
        elif kind in ("process_name", "process_labels"):
            processes[threads[thread][0]].append(text)
    streams = [_STREAM_THREAD.match(name or number) for name, (_, number) in zip(names, threads, strict=True)]
    has_streams = {process for (process, _), match in zip(threads, streams, strict=True) if match}
    device, lane = np.full(len(threads), NONE, np.int64), np.zeros(len(threads), np.int8)
    labels = _ProcessLabels(processes)
    for index, (process, number) in enumerate(threads):
        device[index] = labels.find_device(process, number)
        lane[index] = labels.find_host_lane(process) if device[index] == NONE else ThreadLane.SUMMARY
        if device[index] != NONE and labels.is_work(
            process, names[index], process in has_streams, bool(streams[index])
        ):
            lane[index] = ThreadLane.WORK
    stream = np.asarray([int(match[1]) if match else NONE for match in streams], np.int64)
    tracks = {index: match for index, name in enumerate(names) if (match := _ROCM_TRACK.match(name))}
    gpus = {int(match[1]) for match in tracks.values() if match[3] == "GPU"}
    for index, match in tracks.items():
        device[index] = int(match[1]) if match[3] == "GPU" else next(iter(gpus)) if len(gpus) == 1 else NONE
        stream[index], lane[index] = int(match[2]), ThreadLane.WORK
    parallel = np.asarray([labels.has_parallel_streams(process) for process, _ in threads], np.bool_)
    texts = frozenset(text for stated in processes.values() for text in stated)
    return ThreadInfo(names, device, stream, lane, ~parallel, texts)


class _ProcessLabels:
    """The names of each process, and the devices that it represents."""

    def __init__(self, texts: dict[str, list[str]]) -> None:
        self._texts = texts
        flat = [(process, text) for process, labels in texts.items() for text in labels]
        ascend = [process for process, text in flat if text == _ASCEND]
        self._ascend = {process: number for number, process in enumerate(ascend)}
        self._links = {process for process, text in flat if ascend and text in _ASCEND_LINKS}
        self._numbers = {
            process: int(match[2] or match[3]) for process, text in flat if (match := _DEVICE.search(text))
        }
        self._tf_streams = {process for process, text in flat if _TF_STREAM in text}
        self._tf_all = {process for process, text in flat if _TF_ALL in text}
        if _ROCM_COPIES in {text for _, text in flat} and self._numbers:
            self._numbers |= {process: min(self._numbers.values()) for process, text in flat if text == _ROCM_COPIES}

    def find_device(self, process: str, thread: str) -> int:
        if process in self._ascend:
            return self._ascend[process]
        if process in self._links:
            return 0
        if _ALL_DEVICES.fullmatch(process):
            return int(thread) if thread.isdecimal() and len(thread) < 6 else 0
        if (
            self.find_host_lane(process) == ThreadLane.OPS
            and process not in self._tf_streams
            and not self._is_copies(process)
        ):
            return NONE
        return self._numbers.get(process, NONE)

    def find_host_lane(self, process: str) -> ThreadLane:
        for pattern, lane in _HOST_LANES:
            if any(pattern.fullmatch(text) for text in self._texts[process]):
                return lane
        return ThreadLane.HOST

    def is_work(self, process: str, thread_name: str, has_streams: bool, is_stream: bool) -> bool:
        """True if events on a device thread are its work."""
        if process in self._links:
            return _LINK_THREAD in thread_name
        if process in self._tf_streams and self._tf_all:
            return process in self._tf_all
        if has_streams:
            return is_stream
        return thread_name in ("", _XLA_OPS)

    def has_parallel_streams(self, process: str) -> bool:
        """True if one of its threads shows several streams."""
        return process in self._tf_all

    def _is_copies(self, process: str) -> bool:
        return any("/memcpy" in text for text in self._texts[process])


def _decode_text(raw: bytes) -> str:
    try:
        return escape_control_chars(str(msgspec.json.decode(raw)))
    except JSON_ERRORS:
        return ""
