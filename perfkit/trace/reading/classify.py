"""What an event is, and where it ran: by the category its writer gave it, else by the process and thread it is on."""

import re
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import COMPILED_GRAPH, DEVICE_CATEGORIES, NONE, Category, Ints
from perfkit.trace.reading.columns import Columns
from perfkit.trace.reading.growing import narrowed
from perfkit.trace.reading.kineto import REFUSALS

# In lower case: older versions of torch wrote capitalised names.
CATEGORIES = {
    "cpu_op": Category.OP,
    "operator": Category.OP,
    "user_annotation": Category.RANGE,
    "gpu_user_annotation": Category.GPU_RANGE,
    "kernel": Category.KERNEL,
    "concurrent_kernel": Category.KERNEL,
    "gpu_memcpy": Category.COPY,
    "memcpy": Category.COPY,
    "gpu_memset": Category.FILL,
    "memset": Category.FILL,
    "python_function": Category.PYTHON,
    "runtime": Category.LAUNCH,
    "driver": Category.LAUNCH,
}
# cuda_runtime, xpu_driver, mtia_runtime, privateuse1_runtime, glow_runtime ...
_LAUNCH = re.compile(r".*_(?:runtime|driver)$")

_DEVICE_PROCESS = re.compile(r"/device:(?!CPU)(\w+):(\d+)|^(?:GPU|XPU|HPU|MTIA|TPU) ?(\d+)", re.IGNORECASE)
_STREAM_THREAD = re.compile(r"stream\s*#?(\d+)", re.IGNORECASE)
_XLA_OPS = "XLA Ops"
_COPY_NAME = re.compile(r"memcpy", re.IGNORECASE)
_FILL_NAME = re.compile(r"memset", re.IGNORECASE)
_LAUNCH_NAME = re.compile(r"(?:cu|cuda|hip|ze|musa|acl)[A-Z]\w+$")
_OP_NAME = re.compile(r"\w+::\w")


@dataclass(frozen=True)
class Places:
    """What a file states about its threads, an entry for each.

    Attributes:
        names: the thread's name, empty where there is none.
        device: the number of the device that the thread's process stands for; NONE for threads of the host.
        stream: the stream that a device's thread stands for; NONE where its name does not tell.
        works: whether events without a category on a device's thread are its work, not a summary of it.
    """

    names: list[str]
    device: Ints
    stream: Ints
    works: NDArray[np.bool_]


def places(threads: list[tuple[str, str]], stated: list[tuple[int, str, bytes]]) -> Places:
    """Read the statements (thread, `process_name` or the like, JSON) about threads and processes."""
    names = [""] * len(threads)
    devices: dict[str, int] = {}
    for thread, kind, raw in stated:
        text = _text(raw)
        if kind == "thread_name":
            names[thread] = text
        elif kind in ("process_name", "process_labels") and (found := _DEVICE_PROCESS.search(text)):
            devices[threads[thread][0]] = int(next(each for each in found.groups()[1:] if each is not None))
    device = np.asarray([devices.get(process, NONE) for process, _ in threads], np.int64)
    streams = [_STREAM_THREAD.match(name) for name in names]
    stream = np.asarray([int(each[1]) if each else NONE for each in streams], np.int64)
    has_streams = {process for (process, _), each in zip(threads, streams, strict=True) if each}
    works = [
        bool(each) or (not name and process not in has_streams) or (name == _XLA_OPS and process not in has_streams)
        for (process, _), name, each in zip(threads, names, streams, strict=True)
    ]
    return Places(names, device, stream, np.asarray(works, np.bool_))


def classify(rows: Columns, cats: list[str], names: list[str], where: Places) -> NDArray[np.int8]:
    """The `Category` of every row."""
    category = np.asarray([_of_cat(cat) for cat in cats] or [Category.OTHER], np.int8)[rows["cat"]]
    none = np.flatnonzero(np.asarray([cat == "" for cat in cats] or [False])[rows["cat"]])
    if len(none):
        category[none] = _without_cat({key: column[none] for key, column in rows.items()}, names, where)
    compiled = np.asarray([name.startswith(COMPILED_GRAPH) for name in names] or [False])
    # On the device, too, but there it is a summary.
    category[compiled[rows["name"]] & (category == Category.RANGE)] = Category.OP
    return category


def place_on_devices(rows: Columns, category: NDArray[np.int8], threads: list[tuple[str, str]], where: Places) -> None:
    """Fill in the device and stream of device events that do not tell, from the process and thread they are on."""
    on_device = np.isin(category, [*DEVICE_CATEGORIES, Category.GPU_RANGE])
    process = np.asarray([_number(each) for each, _ in threads] or [NONE], np.int64)
    thread = np.asarray([_number(each) for _, each in threads] or [NONE], np.int64)
    device = np.where(where.device == NONE, np.where(process < 1 << 10, process, NONE), where.device)
    stream = np.where(where.stream == NONE, thread, where.stream)
    for column, values in (("device", device), ("stream", stream)):
        missing = on_device & (rows[column] == NONE)
        if missing.any():
            rows[column] = np.where(missing, narrowed(values)[rows["thread"]], rows[column])


def _of_cat(cat: str) -> Category:
    cat = cat.lower()
    if _LAUNCH.match(cat):
        return Category.LAUNCH
    return CATEGORIES.get(cat, Category.OTHER)


def _without_cat(rows: Columns, names: list[str], where: Places) -> NDArray[np.int8]:
    copies = np.asarray([bool(_COPY_NAME.match(name)) for name in names] or [False])[rows["name"]]
    fills = np.asarray([bool(_FILL_NAME.match(name)) for name in names] or [False])[rows["name"]]
    by_name = np.asarray([_of_host_name(name) for name in names] or [Category.OTHER], np.int8)[rows["name"]]
    host = np.where(rows["hlo"], np.int8(Category.OP), by_name)
    work = np.where(copies, Category.COPY, np.where(fills, Category.FILL, Category.KERNEL))
    device = np.where(where.works[rows["thread"]], work, Category.GPU_RANGE)
    on_device = (where.device[rows["thread"]] != NONE) | ((rows["stream"] != NONE) & (rows["device"] != NONE))
    return np.where(on_device, device, host).astype(np.int8)


def _of_host_name(name: str) -> Category:
    if name.startswith("$"):  # XLA's profiler marks Python functions so
        return Category.PYTHON
    if _LAUNCH_NAME.match(name):
        return Category.LAUNCH
    if name.startswith("ProfilerStep#"):
        return Category.RANGE
    return Category.OP if _OP_NAME.match(name) else Category.OTHER


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else NONE


def _text(raw: bytes) -> str:
    try:
        return str(msgspec.json.decode(raw))
    except REFUSALS:
        return ""
