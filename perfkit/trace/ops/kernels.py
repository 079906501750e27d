"""Links kernels, copies and fills of a device to the ops that launched them."""

import re
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.annotations import COLLECTIVE_RANGES
from perfkit.trace.compact_ints import Compact
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.function_name import extract_function_name
from perfkit.trace.match_ids import find_latest_before, map_processes, match_flows
from perfkit.trace.model import COMPILED_GRAPH, DEVICE_CATEGORIES, NONE, Category, Ints, Trace


class KernelLink(IntEnum):
    """The evidence for a kernel's op."""

    UNLINKED = 0
    CORRELATION = 1  # of its launch, which lies within the op
    EXTERNAL_ID = 2  # the profiler's id of the op, repeated on the kernel
    FLOW = 3  # an arrow from the launch, which lies within the op
    CAPTURE = 4  # that was called while the graph was captured which replayed the kernel (`perfkit.trace.graphs`)


@dataclass(frozen=True)
class Kernels:
    """Kernels, copies and fills in the order of time: indices of their events, and of the event of the op.

    Attributes:
        op: the innermost op around the launch, NONE where neither the launch nor the op was recorded.
        launch: event of the call that started it (the kernels of a CUDA graph share one), NONE where it was not
            recorded. A launch may be known where the op is not: nothing else was recorded around it.
        link: how the op was found.
        clock_skew_ns: by device, how much too early its clock seems to be: the earliest start of a kernel before its
            own launch. Devices on which all kernels start after their launches are left out.
    """

    event: Compact
    op: Compact
    launch: Compact
    link: NDArray[np.int8]
    clock_skew_ns: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.event)


def link_kernels(trace: Trace, ops: Ints, parent: Ints) -> Kernels:
    """Link device work to `ops` (events in order of time, with the `parents` of each).

    A kernel is linked through its launch, which it shares a correlation id with or which an arrow connects it to, to
    the innermost op around that launch; else by the profiler's id of the op, or by an arrow from the op itself.
    """
    events = trace.select_events(*DEVICE_CATEGORIES)
    if not len(events):
        return Kernels(events, events, events, np.empty(0, np.int8))
    launches = trace.select_events(Category.LAUNCH)
    ids = _LinkIds.from_trace(trace, events, launches)
    launch_of = _match_launches(trace, events, launches, ids)
    by_flow = np.zeros(len(events), np.bool_)
    if (launch_of == NONE).any():
        source, target = match_flows(trace, "launch", launches, events)
        fresh = launch_of[target] == NONE
        launch_of[target[fresh]] = source[fresh]
        by_flow[target[fresh]] = True
    launched = np.flatnonzero(launch_of != NONE)
    around = np.full(len(events), NONE, np.int64)
    calls = launches[launch_of[launched]]
    around[launched] = find_around_times(trace, ops, trace.thread[calls], trace.start_ns[calls], parent)
    link = np.where(
        around == NONE, KernelLink.UNLINKED, np.where(by_flow, KernelLink.FLOW, KernelLink.CORRELATION)
    ).astype(np.int8)
    loose = np.flatnonzero(around == NONE)
    if len(loose) and ids.name_ops:
        by_id = find_latest_before(
            ids.external[loose], trace.start_ns[events[loose]], trace.external_id[ops], trace.start_ns[ops]
        )
        around[loose] = by_id
        link[loose[by_id != NONE]] = KernelLink.EXTERNAL_ID
    op, launch = np.full(len(events), NONE, np.int64), np.full(len(events), NONE, np.int64)
    launch[launched] = calls
    loose = np.flatnonzero(around == NONE)
    if len(loose):
        source, target = match_flows(trace, "op", ops, events[loose])
        around[loose[target]] = source
        link[loose[target]] = KernelLink.FLOW
    known = around != NONE
    op[known] = ops[around[known]]
    return Kernels(events, op, launch, link, _measure_clock_skew(trace, events, launch))


@dataclass(frozen=True)
class _LinkIds:
    """The ids that connect kernels and launches, and the ids of ops on kernels; `name_ops` if the latter exist."""

    kernel: Ints
    launch: Ints
    external: Ints
    name_ops: bool

    @classmethod
    def from_trace(cls, trace: Trace, events: Ints, launches: Ints) -> "_LinkIds":
        kernel, launch = trace.correlation[events], trace.correlation[launches]
        external = trace.external_id[events]
        if (kernel == NONE).all() and (external != NONE).any():
            # Whether this is the id of an op or of a launch, launches share it. It is no id of an op if each launch
            # has its own, though ops launch several kernels each.
            its = trace.external_id[launches]
            ids = its[its != NONE]
            distinct = len(np.unique(ids)) == len(ids) > 0
            return cls(external, its, external, name_ops=not distinct)
        # Some files repeat the correlation id under the name of the op's.
        return cls(kernel, launch, np.where(external == kernel, NONE, external), name_ops=True)


def _match_launches(trace: Trace, events: Ints, launches: Ints, ids: _LinkIds) -> Ints:
    """The position of each kernel's launch, NONE where none has its id."""
    starts, launch_starts = trace.start_ns[events], trace.start_ns[launches]
    process = map_processes(trace)[trace.thread[launches]] if len(launches) else trace.thread[launches]
    launch_ids = ids.launch[ids.launch != NONE]
    if len(np.unique(process)) < 2 or len(np.unique(launch_ids)) == len(launch_ids):
        return find_latest_before(ids.kernel, starts, ids.launch, launch_starts)
    # Processes number their launches independently of each other: a device's kernels come from the process that has
    # most of their ids before them, with the same op's id if there is one, and has them soonest before. Ranks that did
    # the same in one file have the same ids: with as many devices as processes each device has its own.
    result = np.full(len(events), NONE, np.int64)
    where = np.stack([map_processes(trace)[trace.thread[events]].astype(np.int64), trace.device[events]])
    _, device = np.unique(where, axis=1, return_inverse=True)
    members = [np.flatnonzero(process == launcher) for launcher in np.unique(process)]
    one_each, taken = len(members) == int(device.max()) + 1, set[int]()
    for number in range(int(device.max()) + 1):
        mine = np.flatnonzero(device == number)
        best, chosen = (-1, -1, False, 0.0), NONE
        for launcher, candidates in enumerate(members):
            launch_of = find_latest_before(
                ids.kernel[mine], starts[mine], ids.launch[candidates], launch_starts[candidates]
            )
            known = launch_of != NONE
            delay = starts[mine][known] - launch_starts[candidates[launch_of[known]]]
            same = trace.external_id[events[mine][known]] == trace.external_id[launches[candidates[launch_of[known]]]]
            soonest = -float(np.median(delay)) if len(delay) else 0.0
            fit = (int((delay >= 0).sum()), int(same.sum()), one_each and launcher not in taken, soonest)
            if fit > best and known.any():
                best, chosen = fit, launcher
                result[mine] = np.where(known, candidates[launch_of], NONE)
        taken.add(chosen)
    return result


def _measure_clock_skew(trace: Trace, events: Ints, launch: Ints) -> dict[int, int]:
    known = launch != NONE
    delay = trace.start_ns[events[known]] - trace.start_ns[launch[known]]
    device = trace.device[events[known]]
    early = delay < 0
    return {int(index): -int(delay[early & (device == index)].min()) for index in np.unique(device[early])}


# torch.compile names its kernels by kind and by the ops fused into them.
_COMPILED = re.compile(r"(triton_(poi|red|per|tem|for|mm|unk)_|(graph_\d+_)?(cpp_fused|kernel_cpp))")
_COLLECTIVE_KERNEL = re.compile(
    r"nccl|rccl|msccl|oneccl|^hc(om|cl)|^(all-(reduce|gather|to-all)|reduce-scatter|collective-permute)\b",
    re.IGNORECASE,
)


# Kernels by which ranks read and write each other's memory: torch's symmetric memory and NVSHMEM extension, NVSHMEM's
# own, the custom all-reduces of vLLM, SGLang and aiter, quickreduce, FlashInfer's and TensorRT-LLM's with a norm behind
# them, their all-to-all of experts, Transformer Engine's userbuffers, the all-to-all of DeepEP and its hybrid, MORI's.
_PEER_KERNEL = re.compile(
    r"cross_device_reduce|all_?(reduce|gather|to_?all)|reduce_?scatter|^(\w+_)?(put|wait)_signal_kernel$"
    r"|^barrier_kernel$|^multimem_one_shot_reduce_kernel$"
    r"|^c10d::nvshmem_extension::|^(barrier|sync|alltoall|broadcast|fcollect|rdxn|\w*reduce)(_all)?_on_stream_kernel"
    r"|^deep_ep::int(er|ra)node(_ll)?::(barrier$|(cached_)?(notify_)?(dispatch|combine))"
    r"|^hybrid_ep::(dispatch|combine)_kernel|moeA2A(Dispatch|Combine)Kernel|^mori::moe::Ep(Dispatch|Combine)"
    r"|^userbuffers_fp16_sum_inplace|^kuserbuffers_(push|pull)(send|recv)",
    re.IGNORECASE,
)
# These compute, too, and are classified by their computation.
_COMPUTES = re.compile(r"gemm|matmul|attention|attn|flash", re.IGNORECASE)


@lru_cache(maxsize=65536)
def is_collective_kernel(name: str) -> bool:
    """True if ranks exchange data in a kernel of this name."""
    if _COLLECTIVE_KERNEL.search(name) is not None:
        return True
    function = extract_function_name(name)
    # Code compiled to run after a collective has its name: triton_poi_fused_add_all_reduce_4.
    return _PEER_KERNEL.search(function) is not None and not (
        _COMPUTES.search(function.rpartition("::")[2]) or is_compiled_kernel(name)
    )


def is_compiled_kernel(name: str) -> bool:
    """True if torch.compile generated this kernel (Triton on a GPU; C++ where inductor profiles its kernels)."""
    return _COMPILED.match(name) is not None


def is_compiled_graph(name: str) -> bool:
    """True for a run of compiled code: unrecorded work beneath is generated kernels and their glue."""
    return name.startswith(COMPILED_GRAPH)


def is_compiled_region(name: str) -> bool:
    """True for a range around compiled code: Dynamo's range, AOTAutograd's function, its gradient, the graph.

    What it was given says little of what its kernels move.
    """
    return is_compiled_graph(name) or name.startswith(("CompiledFunction", "Torch-Compiled Region"))


def find_communication(trace: Trace) -> Ints:
    """Events with data exchange between ranks: collective kernels, or a backend's ranges without any."""
    kernels = trace.select_events(Category.KERNEL)
    events = kernels[mark_named(trace, kernels, is_collective_kernel)]
    if len(events):
        return events
    ranges = trace.select_events(Category.RANGE)
    return ranges[mark_named(trace, ranges, lambda name: name.startswith(COLLECTIVE_RANGES))]
