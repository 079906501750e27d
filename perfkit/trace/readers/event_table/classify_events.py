"""Classifies events and where they ran: by category, else by process and thread."""

import re
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from perfkit.devices.accelerator import NPU
from perfkit.trace.compact_ints import compact_ints
from perfkit.trace.event_nesting import compute_parents
from perfkit.trace.function_name import extract_function_name
from perfkit.trace.model import COMPILED_GRAPH, DEVICE_CATEGORIES, NONE, Category
from perfkit.trace.readers.event_table.piece_columns import Columns
from perfkit.trace.readers.event_table.thread_info import ThreadInfo, ThreadLane

# Tasks of MTIA's control processors: transfers, and other tasks within each other.
_MTIA_TASKS = "mtia_ccp_events"

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
    "cuda_api": Category.LAUNCH,
    "nvtx": Category.RANGE,
    "nvtx-kernel": Category.GPU_RANGE,
    _MTIA_TASKS: Category.KERNEL,
    # ROCm's profiler, in Perfetto's format.
    "kernel_dispatch": Category.KERNEL,
    "memory_copy": Category.COPY,
    "hip_api": Category.LAUNCH,
    "marker_api": Category.RANGE,
    # Known, and no work: the profiler's own, waits, torch_npu's queue between threads, and ROCm's calls below HIP's.
    **dict.fromkeys(("trace", "overhead", "cuda_sync", "cuda_profiler_range", "enqueue", "dequeue"), Category.OTHER),
    **dict.fromkeys(("hsa_api", "rccl_api", "memory_allocation", "scratch_memory"), Category.OTHER),
}
# These say nothing: the thread decides.
_SAY_NOTHING = frozenset({"", "cuda", "op"})
# cuda_runtime, xpu_driver, mtia_runtime, privateuse1_runtime, glow_runtime ...
_LAUNCH = re.compile(r".*_(?:runtime|driver)$")

_RUNTIME_OF = re.compile(r"(mtia|xpu|hpu|npu|musa|privateuseone|privateuse1)_\w+$")
# Labels of processes; `GPU` and `Device` tell no kind.
_DEVICE_LABEL = re.compile(r"(?:.*/device:)?(XPU|HPU|MTIA|TPU|NPU)\b[ :]?\d*.*|Ascend Hardware$")

_COPY_NAME = re.compile(r"memcpy|dma_|SDMA|Copy(?:Host|Device)To(?:Host|Device)", re.IGNORECASE)
_FILL_NAME = re.compile(r"memset", re.IGNORECASE)
_LAUNCH_NAME = re.compile(r"(?:cu|cuda|hip|ze|musa|acl)[A-Z]\w+$")
# Waits and records of Ascend's streams are not work.
_WAIT_NAME = re.compile(
    r"(EVENT|NOTIFY|CAPTURE)_?(WAIT|RECORD)|PLACE_HOLDER|PROFILER_TRACE|WRITE_VALUE|FLIP_TASK", re.IGNORECASE
)
# A kernel all of whose name is about waiting does no work, such as MTIA's event_wait. What waits for another rank's
# signal exchanges data with it.
_ABOUT_WAITING = r"(event|stream|queue|semaphore|fence|flag|value|dma|device|host|job|task|kernel|spin|for|on|until)"
_WAITS = re.compile(rf"({_ABOUT_WAITING}_?)*wait(_?{_ABOUT_WAITING})*_?\d*", re.IGNORECASE)
_OP_NAME = re.compile(r"\w+::\w")
_STEP_MARK = re.compile(r"ProfilerStep ?#\d")


def classify_events(rows: Columns, cats: list[str], names: list[str], where: ThreadInfo) -> NDArray[np.int8]:
    """The `Category` of every row."""
    category = np.asarray([_classify_category(cat) for cat in cats] or [Category.OTHER], np.int8)[rows["cat"]]
    none = np.flatnonzero(np.asarray([cat.lower() in _SAY_NOTHING for cat in cats] or [False])[rows["cat"]])
    if len(none):
        category[none] = _classify_uncategorized({key: column[none] for key, column in rows.items()}, names, where)
    tasks = np.asarray([cat == _MTIA_TASKS for cat in cats] or [False])[rows["cat"]]
    if tasks.any():
        copies = np.asarray([bool(_COPY_NAME.match(name)) for name in names])[rows["name"]]
        category[tasks & copies] = Category.COPY
    waits = np.asarray([_is_wait(name) for name in names] or [False])[rows["name"]]
    category[waits & (category == Category.KERNEL)] = Category.GPU_RANGE
    nests = tasks.copy()
    nests[none] = where.nests[rows["thread"][none]]
    _mark_summaries(rows, category, nests)
    compiled = np.asarray([name.startswith(COMPILED_GRAPH) for name in names] or [False])
    # torch_npu and old versions of torch write the mark of a step as an op, which would contain all others.
    marks = np.asarray([_STEP_MARK.match(name) is not None for name in names] or [False])
    category[marks[rows["name"]] & (category == Category.OP)] = Category.RANGE
    # On the device, too, but there it is a summary.
    category[compiled[rows["name"]] & (category == Category.RANGE)] = Category.OP
    return category


def place_on_devices(
    rows: Columns, category: NDArray[np.int8], threads: list[tuple[str, str]], where: ThreadInfo
) -> None:
    """Fill in device and stream of device events without them, from their process and thread."""
    on_device = np.isin(category, [*DEVICE_CATEGORIES, Category.GPU_RANGE])
    process = np.asarray([_parse_number(written) for written, _ in threads] or [NONE], np.int64)
    thread = np.asarray([_parse_number(written) for _, written in threads] or [NONE], np.int64)
    device = np.where(where.device == NONE, np.where(process < 1 << 10, process, NONE), where.device)
    stream = np.where(where.stream == NONE, thread, where.stream)
    for column, values in (("device", device), ("stream", stream)):
        missing = on_device & (rows[column] == NONE)
        if missing.any():
            rows[column] = np.where(missing, compact_ints(values)[rows["thread"]], rows[column])


def find_runtime(cats: list[str], labels: Collection[str]) -> str:
    """The device whose runtime the categories or the processes' labels name, in the word that torch has for it; empty
    for CUDA's."""
    named = next((match[1] for cat in cats if (match := _RUNTIME_OF.match(cat.lower()))), "")
    if named:
        return named
    labeled = next((match for label in sorted(labels) if (match := _DEVICE_LABEL.match(label))), None)
    return "" if labeled is None else (labeled[1] or NPU.kind).lower()


def _is_wait(name: str) -> bool:
    return (
        "wait" in name.lower()
        and _WAITS.fullmatch(extract_function_name(name).rpartition("::")[2].strip("_")) is not None
    )


def _classify_category(cat: str) -> Category:
    cat = cat.lower()
    if _LAUNCH.match(cat):
        return Category.LAUNCH
    return CATEGORIES.get(cat, Category.UNKNOWN)


def _classify_uncategorized(rows: Columns, names: list[str], where: ThreadInfo) -> NDArray[np.int8]:
    copies = np.asarray([bool(_COPY_NAME.match(name)) for name in names] or [False])[rows["name"]]
    fills = np.asarray([bool(_FILL_NAME.match(name)) for name in names] or [False])[rows["name"]]
    by_name = np.asarray([_classify_host_name(name) for name in names] or [Category.OTHER], np.int8)[rows["name"]]
    lane = where.lane[rows["thread"]]
    by_name[(lane == ThreadLane.XLA_HOST) & (by_name == Category.OP)] = Category.OTHER
    by_name[rows["numbered"]] = Category.RANGE
    by_name[(lane == ThreadLane.HOST) & (by_name == Category.OTHER)] = Category.UNKNOWN
    host = np.where(rows["hlo"] | (lane == ThreadLane.OPS), np.int8(Category.OP), by_name)
    host = np.where(lane == ThreadLane.CALLS, np.int8(Category.LAUNCH), host)
    work = np.where(copies, Category.COPY, np.where(fills, Category.FILL, Category.KERNEL))
    waits = np.asarray([bool(_WAIT_NAME.match(name)) for name in names] or [False])[rows["name"]]
    unplaced = where.device[rows["thread"]] == NONE  # events with a device and stream are work
    device = np.where(((lane == ThreadLane.WORK) | unplaced) & ~waits, work, Category.GPU_RANGE)
    on_device = (where.device[rows["thread"]] != NONE) | ((rows["stream"] != NONE) & (rows["device"] != NONE))
    return np.where(on_device, device, host).astype(np.int8)


def _mark_summaries(rows: Columns, category: NDArray[np.int8], nests: NDArray[np.bool_]) -> None:
    """Mark summaries: nested work lies within events that would count its time twice."""
    chosen = np.flatnonzero(nests & (category == Category.KERNEL))
    start, end = rows["start_ns"][chosen], rows["start_ns"][chosen] + rows["duration"][chosen]
    order = np.lexsort((-end, start))
    chosen, start, end = chosen[order], start[order], end[order]
    parent = compute_parents(rows["thread"][chosen], start, end)
    # Times are rounded: an event that begins a nanosecond before another's end follows it.
    within = (parent != NONE) & (end <= end[parent]) & (start < end[parent] - 1)
    category[chosen[parent[within]]] = Category.GPU_RANGE


def _classify_host_name(name: str) -> Category:
    if name.startswith("$"):  # XLA's profiler marks Python functions so
        return Category.PYTHON
    if _LAUNCH_NAME.match(name):
        return Category.LAUNCH
    if _STEP_MARK.match(name):
        return Category.RANGE
    return Category.OP if _OP_NAME.match(name) else Category.OTHER


def _parse_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else NONE
