"""Estimates GPU memory outside the tensors of a rehearsed step: intervals with their sources.

Figures of Hopper's context were measured; all others are from the sources.
"""

import re
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from perfkit.analysis.model.plan import Interval, NonTensorMemory
from perfkit.devices.catalog.capability import Capability, get_capability
from perfkit.devices.catalog.catalog import CatalogEntry
from perfkit.plan.rehearsal.libraries.cuda_scratch import SOURCES
from perfkit.plan.target.target import Target
from perfkit.plan.timing.efficiency_store import load_learned
from perfkit.plan.timing.gpu_links import has_switch

_MIB = 2**20
_BLACKWELL: Capability = (10, 0)

WORKSPACES = "cuBLAS workspaces"
CACHED = "reserved and free"
CONTEXT = "context and modules"

# By the id in the catalog, what torch gives each cuBLAS handle to work in (`parseChosenWorkspaceSize`,
# ATen/cuda/CublasHandlePool.cpp): bytes at least and as expected. cuBLASLt shares it. The thread of forward and that of
# backward have a handle each.
_HANDLE_BYTES = (
    (r"g?h\d+", (32 * _MIB, 32 * _MIB), "32 MiB per handle on Hopper"),
    (r"(g?b\d+|rtx-50[5-9]0|rtx-pro)", (8519680, 32 * _MIB), "8 to 32 MiB per handle on Blackwell"),
    (r"mi[34]\d+", (128 * _MIB, 128 * _MIB), "128 MiB per handle on gfx94x and gfx95x"),
    (r"(mi|rx-)", (32 * _MIB, 32 * _MIB), "32 MiB per handle with ROCm"),
    (r"", (8519680, 8519680), "8,519,680 B per handle, :4096:2:16:8"),
)

# Cards whose ECC takes a sixteenth of the memory.
_INLINE_ECC = re.compile(r"(a10g?|a16|a2|a40|l4|l40s?|t4)")


def get_handle_bytes(target: Target) -> Interval:
    """Torch's default workspace of a cuBLAS handle, without CUBLAS_WORKSPACE_CONFIG."""
    low, value = _get_handle_sizes(target)[0]
    return Interval(value=value, low=low, high=max(low, value))


def list_library_memory(target: Target, scratch: dict[str, int]) -> tuple[NonTensorMemory, ...]:
    """Library memory from torch's allocator at the peak, which includes it.

    Args:
        target: the GPU.
        scratch: maximum scratch memory of one op, by library.
    """
    one = get_handle_bytes(target)
    workspaces = NonTensorMemory(
        name=WORKSPACES,
        bytes=Interval(value=2 * one.value, low=one.low, high=2 * one.high),
        source=f"torch's default, {_get_handle_sizes(target)[1]}: one for the forward and one for the backward thread",
    )
    return workspaces, *(
        NonTensorMemory(
            name=f"{library} scratch", bytes=Interval(value=most, low=0, high=most), source=SOURCES[library]
        )
        for library, most in scratch.items()
    )


def list_non_tensor_memory(target: Target, groups: Sequence[int], cached: Interval) -> tuple[NonTensorMemory, ...]:
    """Memory of a rank outside the allocator's peak, and memory usable by nobody.

    Args:
        target: the GPU.
        groups: ranks of each process group in which the rank exchanges anything, with that of all ranks: each has a
            communicator of its own, with buffers of its own.
        cached: bytes that the allocator has reserved and not handed out.
    """
    replay = "the step's requests in a model of torch's caching allocator: 512-byte units, split blocks; at most as if "
    replay += "each request took one unit more"
    if target.expandable_segments:
        replay += ", expandable segments"
    replay += "; memory reserved by offload copies is not modeled"
    rows = [NonTensorMemory(name=CACHED, bytes=cached, source=replay), _estimate_context(target)]
    return *rows, *(_estimate_nccl_buffers(target, groups) if groups else ()), *_estimate_driver_reserve(target)


class _ContextBounds(NamedTuple):
    """Bytes of a context with its modules: before any kernel, which are the least, as CUDA loads modules when kernels
    are called, those that are expected, and the most that was measured."""

    low: float
    value: float
    high: float
    source: str


_MOST = 1343e6
_MEASURED = "; 742 to 1,343 MB were measured once steps were warm, by version of CUDA and architecture"
_USED = (
    "; about 400 MB in use (pytorch#109888); 667 MB with all modules loaded (pytorch#86509), over 1,000 before CUDA "
    f"11.7 (pytorch#107667){_MEASURED}"
)
# 36 processes on an H200 with torch 2.11, CUDA 13.0 and driver 580 (benchmarks/results/nvidia-h200/variants.json):
# 518 MiB before any kernel, and 224 to 320 MiB of kernels and libraries once its steps were warm.
_MEASURED_ON_H200 = (518 * _MIB, 742 * _MIB)
_ON_H200 = (
    "518 MiB before any kernel on an H200 with CUDA 13.0, and 742 to 838 MiB once the steps of 36 processes were "
    f"warm{_MEASURED}"
)

# NVIDIA's GPUs by compute capability, first and last.
_CONTEXTS: tuple[tuple[Capability, Capability, _ContextBounds], ...] = (
    (
        (8, 0),
        (8, 6),
        _ContextBounds(
            268e6,
            400e6,
            _MOST,
            f"before any kernel 256 MiB on an RTX 3090 with CUDA 12.8 (InvokeAI#9413){_USED}",
        ),
    ),
    (
        (8, 9),
        (8, 9),
        _ContextBounds(
            447e6,
            500e6,
            _MOST,
            f"before any kernel 426 MiB on an RTX 6000 Ada with CUDA 13.0 (unsloth-zoo#1053){_USED}",
        ),
    ),
    ((9, 0), (9, 0), _ContextBounds(*_MEASURED_ON_H200, _MOST, _ON_H200)),
    (
        (10, 0),
        (12, 1),
        _ContextBounds(
            447e6,
            _MEASURED_ON_H200[1],
            _MOST,
            f"not measured on Blackwell: at least 426 MiB as on Ada (unsloth-zoo#1053), else as on Hopper, {_ON_H200}",
        ),
    ),
)
_ANY_CONTEXT = _ContextBounds(
    268e6,
    450e6,
    _MOST,
    f"before any kernel 256 and 426 MiB on two GPUs, with CUDA 12.8 and 13.0 (InvokeAI#9413, unsloth-zoo#1053){_USED}",
)


def _estimate_context(target: Target) -> NonTensorMemory:
    """Estimate the context from runs on GPUs of this name, within the published bounds of its architecture.

    Other versions of CUDA or of the driver take other memory."""
    assert target.entry is not None
    known = load_learned(target.entry.id)
    measured = [] if known is None else [p.context_bytes for p in known.programs if p.context_bytes is not None]
    published = _get_published_context(target.entry)
    if not measured:
        bounds = Interval(value=published.value, low=published.low, high=published.high)
        return NonTensorMemory(name=CONTEXT, bytes=bounds, source=published.source)
    bounds = Interval(value=median(measured), low=min(published.low, *measured), high=max(published.high, *measured))
    source = (
        f"median of {len(measured)} programs on GPUs of this name, on any machine and CUDA version; published bounds, "
        "extended if exceeded"
    )
    return NonTensorMemory(name=CONTEXT, bytes=bounds, source=source)


def _get_published_context(entry: CatalogEntry) -> _ContextBounds:
    """Capabilities of AMD's GPUs count otherwise: a MI250X is 9.0 as well."""
    if entry.vendor != "NVIDIA":
        return _ANY_CONTEXT
    capability = get_capability(entry)
    return next((bounds for first, last, bounds in _CONTEXTS if first <= capability <= last), _ANY_CONTEXT)


# A connection of a channel has 10 MiB: 4 MiB of NCCL_BUFFSIZE and those of the low-latency protocols.
_PAIR = Interval(value=24 * 2 * 10 * _MIB, low=2 * 2 * 10 * _MIB, high=1.6e9)
_MORE_OF_LARGER = (688 - 544) * 1e6  # of groups of more than two, whose trees connect to more ranks

# NVLink SHARP: for each of the group's GPUs in a node a unicast buffer of 2 x 8 steps of 128 KiB a channel
# (`ncclNvlsBufferSetup`, src/transport/nvls.cc): 16 channels on Hopper, on Blackwell 24 within a node and 32 across.
# With two GPUs there is none (`ncclNvlsInit`).
_BYTES_A_CHANNEL = 2 * 8 * 128 * 2**10
_CHANNELS_ON_HOPPER, _CHANNELS_ON_BLACKWELL = (16, 16), (24, 32)
_LEAST_OF_NVLS = 3


def _estimate_nccl_buffers(target: Target, groups: Sequence[int]) -> Iterator[NonTensorMemory]:
    """NCCL buffers of communicators, created at a group's first exchange."""
    sizes = ", ".join(map(str, sorted(groups, reverse=True)))
    larger = sum(ranks > 2 for ranks in groups)
    yield NonTensorMemory(
        name="NCCL's buffers",
        bytes=Interval(
            value=len(groups) * _PAIR.value + larger * _MORE_OF_LARGER,
            low=len(groups) * _PAIR.low,
            high=len(groups) * _PAIR.high,
        ),
        source=f"communicators: {len(groups)}, of {sizes} ranks, each of 10 MiB a connection (nccl#1685), two "
        "connections of a ring in 2 to 24 channels, and 144 MB more among more than two (nccl#964: 544 and 688 MB on "
        "A100); 1.6 GB were measured for one (nccl#864)",
    )
    assert target.entry is not None
    near = [min(ranks, target.ranks_per_node) for ranks in groups]
    heads = [ranks for ranks in near if ranks >= _LEAST_OF_NVLS]
    if not has_switch(target.entry) or not heads:
        return
    newer = get_capability(target.entry) >= _BLACKWELL
    few, many = (sum(heads) * channels * _BYTES_A_CHANNEL for channels in _get_channel_bounds(newer))
    yield NonTensorMemory(
        name="NVLink SHARP's buffers",
        bytes=Interval(value=few, low=0, high=many),
        source=f"for each of {sum(heads)} GPUs of communicators, 2 x 8 steps of 128 KiB in "
        f"{_get_channel_bounds(newer)[0]} channels (NCCL's src/transport/nvls.cc); none until a collective uses them, "
        "or with NCCL_NVLS_ENABLE=0",
    )


def _get_channel_bounds(newer: bool) -> tuple[int, int]:
    return _CHANNELS_ON_BLACKWELL if newer else _CHANNELS_ON_HOPPER


def _estimate_driver_reserve(target: Target) -> Iterator[NonTensorMemory]:
    """The driver's reserve of the nominal memory, beyond the part left free."""
    assert target.entry is not None
    assert target.capacity_bytes is not None
    assert target.limit_bytes is not None
    if _INLINE_ECC.fullmatch(target.entry.id):
        shares = (0.063, 0.075, 0.085)
        source = "of 24 GB, an L4 and an A10 report 23,034 and 23,028 MiB; of 16, a T4 reports 15,360 "
        source += "(modal-client#2797), and torch 14.75 GiB: ECC reserves 1/16"
    else:
        shares = (0.005, 0.011, 0.02)
        source = "torch reports 79.11 of 80 GiB (H100, vllm#27508), 23.64 of 24 (RTX 4090), 23.53 of 24 (A30), "
        source += "31.74 of 32 (V100), 47.37 of 48 (RTX 6000 Ada)"
    left = target.capacity_bytes - target.limit_bytes
    low, value, high = (max(0.0, share * target.capacity_bytes - left) for share in shares)
    if high:
        yield NonTensorMemory(
            name="the driver's reserve", bytes=Interval(value=value, low=low, high=high), source=source
        )


def _get_handle_sizes(target: Target) -> tuple[tuple[int, int], str]:
    assert target.entry is not None
    identity = target.entry.id
    return next((sizes, source) for pattern, sizes, source in _HANDLE_BYTES if re.match(pattern, identity))
