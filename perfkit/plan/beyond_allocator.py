"""Memory of a GPU that no tensor of a rehearsed step is in, each part an interval with its source.

None of it has been verified on the GPUs themselves; the figures are those of the sources.
"""

import re
from collections.abc import Iterator

from perfkit.analysis.model.plan import Beyond, Interval
from perfkit.plan.cuda_scratch import SOURCES
from perfkit.plan.target import Target

_MIB = 2**20

WORKSPACES = "cuBLAS' workspaces"
CACHED = "reserved and free"

# By the id in the catalogue, what torch gives each cuBLAS handle to work in (`parseChosenWorkspaceSize`,
# ATen/cuda/CublasHandlePool.cpp): bytes at least and as expected. cuBLASLt shares it. The thread of forward and that of
# backward have a handle each.
_HANDLE_BYTES = (
    (r"g?h\d+", (32 * _MIB, 32 * _MIB), "32 MiB a handle on Hopper"),
    (r"(g?b\d+|rtx-50[5-9]0|rtx-pro)", (8519680, 32 * _MIB), "8 to 32 MiB a handle on Blackwell"),
    (r"mi[34]\d+", (128 * _MIB, 128 * _MIB), "128 MiB a handle on gfx94x and gfx95x"),
    (r"(mi|rx-)", (32 * _MIB, 32 * _MIB), "32 MiB a handle with ROCm"),
    (r"", (8519680, 8519680), "8,519,680 B a handle, :4096:2:16:8"),
)

# Cards with error correction by ordinary memory, which takes a sixteenth of it.
_INLINE_ECC = re.compile(r"(a10g?|a16|a2|a40|l4|l40s?|t4)")


def handle_bytes(target: Target) -> Interval:
    """What torch gives a cuBLAS handle to work in, unless CUBLAS_WORKSPACE_CONFIG says otherwise."""
    low, value = _of(target)[0]
    return Interval(value=value, low=low, high=max(low, value))


def within_allocator(target: Target, scratch: dict[str, int]) -> tuple[Beyond, ...]:
    """What a GPU's libraries take of torch's allocator at the fullest moment: it is in the peak.

    Args:
        target: the GPU.
        scratch: by libraries, the most that one op of theirs works in.
    """
    one = handle_bytes(target)
    workspaces = Beyond(
        name=WORKSPACES,
        bytes=Interval(value=2 * one.value, low=one.low, high=2 * one.high),
        source=f"torch's default, {_of(target)[1]}: one for forward and one for backward's thread",
    )
    return workspaces, *(
        Beyond(name=f"scratch of {library}", bytes=Interval(value=most, low=0, high=most), source=SOURCES[library])
        for library, most in scratch.items()
    )


def beyond_allocator(target: Target, world_size: int, cached: Interval) -> tuple[Beyond, ...]:
    """What else a rank takes of its GPU, or leaves nobody.

    Args:
        target: the GPU.
        world_size: ranks, each on a GPU of its own.
        cached: bytes that the allocator has reserved and not handed out.
    """
    replay = "the step's requests through a model of torch's caching allocator: 512-byte units, split blocks"
    rows = [Beyond(name=CACHED, bytes=cached, source=replay), _CONTEXT]
    return *rows, *([_NCCL] if world_size > 1 else []), *_reserve(target)


_CONTEXT = Beyond(
    name="context and modules",
    bytes=Interval(value=450e6, low=287e6, high=700e6),
    source="287 MB with modules loaded lazily, 667 MB with all (pytorch#86509); 426 MiB on an RTX 6000 Ada with CUDA "
    "13.0 (unsloth-zoo#1053); up to 700 MB by GPU and version (pytorch#28113)",
)

# A connection of a channel has 10 MiB: 4 MiB of NCCL_BUFFSIZE and those of the low-latency protocols.
_NCCL = Beyond(
    name="NCCL's buffers",
    bytes=Interval(value=24 * 2 * 10 * _MIB, low=2 * 2 * 10 * _MIB, high=1.6e9),
    source="10 MiB a connection (nccl#1685), two connections of a ring in 2 to 24 channels; 1.6 GB were measured for a "
    "communicator (nccl#864), and each further one takes as much again",
)


def _reserve(target: Target) -> Iterator[Beyond]:
    """What the driver keeps of the nominal memory, as far as it is not left free anyway."""
    assert target.entry is not None
    assert target.capacity_bytes is not None
    assert target.limit_bytes is not None
    if _INLINE_ECC.fullmatch(target.entry.id):
        shares = (0.063, 0.075, 0.085)
        source = (
            "of 24 GB an L4 and an A10 tell 23,034 and 23,028 MiB, of 16 a T4 tells 15,360 (modal-client#2797), and "
        )
        source += "torch 14.75 GiB of them: error correction takes a sixteenth"
    else:
        shares = (0.005, 0.011, 0.02)
        source = (
            "torch tells 79.11 GiB of an H100 with 80 (vllm#27508), 23.64 of an RTX 4090 with 24, 23.53 of an A30, "
        )
        source += "31.74 of a V100 with 32, 47.37 of an RTX 6000 Ada with 48"
    left = target.capacity_bytes - target.limit_bytes
    low, value, high = (max(0.0, share * target.capacity_bytes - left) for share in shares)
    if high:
        yield Beyond(name="the driver's reserve", bytes=Interval(value=value, low=low, high=high), source=source)


def _of(target: Target) -> tuple[tuple[int, int], str]:
    assert target.entry is not None
    identity = target.entry.id
    return next((sizes, said) for pattern, sizes, said in _HANDLE_BYTES if re.match(pattern, identity))
