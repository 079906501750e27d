"""Sizes and bandwidths against nccl-tests' conventions, by hand."""

import pytest

from perfkit.cost.calls.collective import (
    CollectiveType,
    classify_collective,
    make_message,
    normalize_dtype_name,
    parse_kernel_collective,
)

MI = 2**20


@pytest.mark.parametrize(
    ("name", "sent", "received", "kind", "elements", "factor"),
    [
        ("allreduce", MI, MI, CollectiveType.ALL_REDUCE, MI, 2 * 3 / 4),
        ("allreduce_coalesced", MI, MI, CollectiveType.ALL_REDUCE, MI, 2 * 3 / 4),
        ("_allgather_base", MI, 4 * MI, CollectiveType.ALL_GATHER, 4 * MI, 3 / 4),
        ("all_gather", MI, 4 * MI, CollectiveType.ALL_GATHER, 4 * MI, 3 / 4),
        ("allgather_into_tensor_coalesced", MI, -1, CollectiveType.ALL_GATHER, 4 * MI, 3 / 4),
        ("_reduce_scatter_base", 4 * MI, MI, CollectiveType.REDUCE_SCATTER, 4 * MI, 3 / 4),
        ("reduce_scatter_tensor_coalesced", -1, MI, CollectiveType.REDUCE_SCATTER, 4 * MI, 3 / 4),
        ("all_to_allv", MI, MI, CollectiveType.ALL_TO_ALL, MI, 3 / 4),
        ("alltoall_base", MI, 2 * MI, CollectiveType.ALL_TO_ALL, 2 * MI, 3 / 4),
        ("broadcast", MI, MI, CollectiveType.BROADCAST, MI, 1),
        ("_broadcast_oop", MI, MI, CollectiveType.BROADCAST, MI, 1),
        ("reduce", MI, MI, CollectiveType.REDUCE, MI, 1),
        ("send", MI, 0, CollectiveType.SEND, MI, 1),
        ("recv", 0, MI, CollectiveType.RECEIVE, MI, 1),
        ("gather", MI, 0, CollectiveType.GATHER, 4 * MI, 3 / 4),
        ("scatter", 0, MI, CollectiveType.SCATTER, 4 * MI, 3 / 4),
    ],
)
def test_messages(name: str, sent: int, received: int, kind: CollectiveType, elements: int, factor: float) -> None:
    found = make_message(name, "BFloat16", sent, received, 4)
    assert found is not None
    assert found == (kind, 2 * elements, factor)
    assert found.compute_algorithm_bandwidth(2.0) == elements
    assert found.compute_bus_bandwidth(2.0) == elements * factor


def test_what_is_not_known_has_no_message() -> None:
    assert make_message("allreduce", "Float", -1, -1, 4) is None
    assert make_message("allreduce", "Mystery", 8, 8, 4) is None
    assert make_message("allreduce", "Float", 8, 8, -1) is None
    assert make_message("unheard_of", "Float", 8, 8, 4) is None
    assert make_message("barrier", "", -1, -1, 4) == (CollectiveType.BARRIER, 0, 0)


def test_one_rank_alone_uses_no_link() -> None:
    found = make_message("allreduce", "Float", 8, 8, 1)
    assert found is not None
    assert found.bus_factor == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            (CollectiveType.ALL_REDUCE, "bf16"),
        ),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", (CollectiveType.ALL_GATHER, None)),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_SIMPLE", (CollectiveType.REDUCE_SCATTER, "fp32")),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            (CollectiveType.ALL_REDUCE, "fp32"),
        ),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", (CollectiveType.ALL_TO_ALL, "int8")),
        ("ncclDevKernel_Broadcast_RING_LL", (CollectiveType.BROADCAST, None)),
        ("ncclKernel_AllReduce_RING_LL_Sum_half", (CollectiveType.ALL_REDUCE, "fp16")),
        ("void at::native::reduce_kernel<512, 1>", None),
    ],
)  # fmt: skip
def test_kernel_names(name: str, expected: tuple[CollectiveType, str | None] | None) -> None:
    assert parse_kernel_collective(name) == expected


def test_names_of_ranges_and_dtypes() -> None:
    assert classify_collective("nccl:_all_gather_base") is CollectiveType.ALL_GATHER
    assert classify_collective("nccl:reduce_scatter") is CollectiveType.REDUCE_SCATTER
    assert classify_collective("nccl:all_reduce") is CollectiveType.ALL_REDUCE
    names = ("Float", "Half", "BFloat16", "Long", "Byte")
    assert [normalize_dtype_name(name) for name in names] == ["fp32", "fp16", "bf16", "int64", "uint8"]
    assert normalize_dtype_name("") is None
