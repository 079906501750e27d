"""Message sizes and bandwidths of collectives, by the conventions of nccl-tests (its doc/PERFORMANCE.md).

Algorithm bandwidth is message size over time. Bus bandwidth multiplies it with a factor that depends on the collective
and on the number of ranks, so that it compares with the speed of the links whatever the collective. The message size of
an all-gather, a reduce-scatter and an all-to-all is that of all ranks' parts together.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from perfkit.cost.calls.dtypes import BY_NAME


class CollectiveType(StrEnum):
    """A collective, whatever a backend calls it."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SEND = "send"
    RECEIVE = "receive"
    GATHER = "gather"
    SCATTER = "scatter"
    BARRIER = "barrier"


# In these no rank is done before the last one has come: they show waiting, and they end together. A broadcast's root
# need not wait for anyone, nor may the sender of a message.
SYNCHRONIZING = (
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.ALL_TO_ALL,
    CollectiveType.BARRIER,
)


class Message(NamedTuple):
    """A collective's message: its bytes as counted by nccl-tests, and the factor of its bus bandwidth."""

    kind: CollectiveType
    bytes: float
    bus_factor: float

    def compute_algorithm_bandwidth(self, seconds: float) -> float:
        """Bytes per second of the message."""
        return self.bytes / seconds

    def compute_bus_bandwidth(self, seconds: float) -> float:
        """Bytes per second that the links carry for each rank."""
        return self.bus_factor * self.compute_algorithm_bandwidth(seconds)


# Names of c10d's backends, of NCCL's kernels and of ranges, without underscores and in lower case; a longer one that
# holds another comes first.
_KINDS: tuple[tuple[str, CollectiveType], ...] = (
    ("crossdevicereduce", CollectiveType.ALL_REDUCE),  # the custom all-reduce of vLLM, SGLang and aiter
    ("allreduce", CollectiveType.ALL_REDUCE),
    ("reducescatter", CollectiveType.REDUCE_SCATTER),
    ("allgather", CollectiveType.ALL_GATHER),
    ("alltoall", CollectiveType.ALL_TO_ALL),
    ("broadcast", CollectiveType.BROADCAST),
    ("barrier", CollectiveType.BARRIER),
    (
        "sendrecv",
        CollectiveType.ALL_TO_ALL,
    ),  # NCCL's kernel for point-to-point messages, of which an all-to-all is made
    ("gather", CollectiveType.GATHER),
    ("scatter", CollectiveType.SCATTER),
    ("reduce", CollectiveType.REDUCE),
    ("send", CollectiveType.SEND),
    ("recv", CollectiveType.RECEIVE),
)


# Bus bandwidth over algorithm bandwidth in units of (n - 1) / n, for n ranks; 1 for those not listed, whatever n is.
_SHARES = {
    CollectiveType.ALL_REDUCE: 2,
    CollectiveType.ALL_GATHER: 1,
    CollectiveType.REDUCE_SCATTER: 1,
    CollectiveType.ALL_TO_ALL: 1,
    CollectiveType.GATHER: 1,
    CollectiveType.SCATTER: 1,
}

# c10's names of dtypes, and those in NCCL's kernels.
_DTYPES = {
    "float": "fp32", "f32": "fp32", "double": "fp64", "f64": "fp64", "half": "fp16", "f16": "fp16",
    "bfloat16": "bf16", "bf16": "bf16", "long": "int64", "int": "int32", "short": "int16", "char": "int8",
    "byte": "uint8", "bool": "bool", "i8": "int8", "u8": "uint8", "i32": "int32", "u32": "uint32", "i64": "int64",
    "u64": "uint64", "int8": "int8", "uint8": "uint8", "int32": "int32", "int64": "int64", "uint64": "uint64",
    "float8e4m3fn": "fp8_e4m3", "float8e5m2": "fp8_e5m2", "f8e4m3": "fp8_e4m3", "f8e5m2": "fp8_e5m2",
    "complexfloat": "complex64", "complexdouble": "complex128", "int8t": "int8", "uint8t": "uint8", "int32t": "int32",
    "uint32t": "uint32", "int64t": "int64", "uint64t": "uint64", "rcclbfloat16": "bf16", "hipbfloat16": "bf16",
}  # fmt: skip

_KERNEL = re.compile(
    r"(?:nccl|rccl|msccl)\w*?_?(?P<kind>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll\w*)"
    r"(?:_(?P<rest>\w+))?",
    re.IGNORECASE,
)


# The number of ranks among the template arguments of kernels that read and write each other's memory.
_NUMBER = r"(?:\([\w ]+\))?(\d+)"
_RANKS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"cross_device_(?:reduce_\w+|store)<[^,<>]+, *{_NUMBER}",  # vLLM, SGLang, aiter
        rf"(?:one|two)_shot_all_reduce_kernel\w*<[^,<>]+, *(?:\(\w+\))?\d+, *{_NUMBER}",  # torch
        rf"one_shot_all_reduce_norm_kernel<[^,<>]+, *{_NUMBER}",  # TensorRT-LLM
        rf"deep_ep::intranode::(?:barrier|dispatch|combine<[^,<>]+,)<? *{_NUMBER}",
        rf"(?:one|two)shotAllreduce\w*<{_NUMBER}",  # FlashInfer, over NVLink of several nodes
        rf"allreduce_fusion_kernel\w*<[^,]+, *[^,<>]+, *{_NUMBER}",  # FlashInfer, TensorRT-LLM
        rf"allreduce_prototype\w*<.*Codec\w*<[^,<>]+, *{_NUMBER}",  # quickreduce
    )
)


def parse_kernel_ranks(name: str) -> int | None:
    """The number of ranks of a kernel that accesses their memory directly; None where its name does not show it."""
    named = next((match for pattern in _RANKS if (match := pattern.search(name))), None)
    ranks = 0 if named is None else int(named[1])
    return ranks if ranks > 1 else None


def classify_collective(name: str) -> CollectiveType | None:
    """The collective that a name of a backend (`_allgather_base`, `nccl:all_to_all`) or of a kernel stands for."""
    plain = name.lower().replace("_", "").replace("-", "")
    return next((kind for text, kind in _KINDS if text in plain), None)


def normalize_dtype_name(name: str) -> str | None:
    """Our name of a dtype as c10 (`BFloat16`) or NCCL (`bf16`) calls it; None for one that is not known."""
    return _DTYPES.get(name.lower().replace("_", "").replace(":", "").removeprefix("c10").removeprefix("at"))


def parse_kernel_collective(name: str) -> tuple[CollectiveType, str | None] | None:
    """Kind and dtype of a collective from the kernel name, for traces without the collective's arguments.

    `ncclDevKernel_AllReduce_Sum_bf16_RING_LL` and `ncclKernel_AllReduce_RING_LL_Sum_float` name both; None for a name
    that is none of NCCL's or RCCL's.
    """
    kernel = _KERNEL.search(name)
    if kernel is None:
        return None
    kind = classify_collective(kernel["kind"])
    if kind is None:
        return None
    words = (kernel["rest"] or "").replace("int8_t", "int8").replace("int32_t", "int32").replace("int64_t", "int64")
    dtype = next(
        (known for word in reversed(words.split("_")) if (known := normalize_dtype_name(word)) is not None), None
    )
    return kind, dtype


def make_message(name: str, dtype: str, sent: int, received: int, ranks: int) -> Message | None:
    """Make the message of a collective whose rank sends and receives these numbers of elements (negative: not
    recorded).

    None where the name or the dtype is not known, the sizes were not recorded, or the group is not.
    """
    kind, size = classify_collective(name), BY_NAME.get(normalize_dtype_name(dtype) or "")
    if kind is None or ranks < 1:
        return None
    if kind is CollectiveType.BARRIER:
        return Message(kind, 0.0, 0.0)
    elements = _count_elements(kind, sent, received, ranks)
    if size is None or elements is None:
        return None
    return make_message_of_size(kind, float(elements * size.size), ranks)


def make_message_of_size(kind: CollectiveType, nbytes: float, ranks: int) -> Message:
    """Make the message of a collective whose larger side, sent or received, has this many bytes."""
    return Message(kind, nbytes, _SHARES[kind] * (ranks - 1) / ranks if kind in _SHARES else 1.0)


def _count_elements(kind: CollectiveType, sent: int, received: int, ranks: int) -> int | None:
    """Elements of the message: of the side with all ranks' parts, derived from the other where missing."""
    known = max(sent, received)
    if known < 0:
        return None
    if kind in (CollectiveType.ALL_GATHER, CollectiveType.GATHER):
        return received if received > 0 else sent * ranks
    if kind in (CollectiveType.REDUCE_SCATTER, CollectiveType.SCATTER):
        return sent if sent > 0 else received * ranks
    return known
