"""Sizes and bandwidths against nccl-tests' conventions, by hand."""

import pytest

from perfkit.cost.collective import Kind, collective_kind, dtype_name, kernel_collective, message

MI = 2**20


@pytest.mark.parametrize(
    ("name", "sent", "received", "kind", "elements", "factor"),
    [
        ("allreduce", MI, MI, Kind.ALL_REDUCE, MI, 2 * 3 / 4),
        ("allreduce_coalesced", MI, MI, Kind.ALL_REDUCE, MI, 2 * 3 / 4),
        ("_allgather_base", MI, 4 * MI, Kind.ALL_GATHER, 4 * MI, 3 / 4),
        ("all_gather", MI, 4 * MI, Kind.ALL_GATHER, 4 * MI, 3 / 4),
        ("allgather_into_tensor_coalesced", MI, -1, Kind.ALL_GATHER, 4 * MI, 3 / 4),
        ("_reduce_scatter_base", 4 * MI, MI, Kind.REDUCE_SCATTER, 4 * MI, 3 / 4),
        ("reduce_scatter_tensor_coalesced", -1, MI, Kind.REDUCE_SCATTER, 4 * MI, 3 / 4),
        ("all_to_allv", MI, MI, Kind.ALL_TO_ALL, MI, 3 / 4),
        ("alltoall_base", MI, 2 * MI, Kind.ALL_TO_ALL, 2 * MI, 3 / 4),
        ("broadcast", MI, MI, Kind.BROADCAST, MI, 1),
        ("_broadcast_oop", MI, MI, Kind.BROADCAST, MI, 1),
        ("reduce", MI, MI, Kind.REDUCE, MI, 1),
        ("send", MI, 0, Kind.SEND, MI, 1),
        ("recv", 0, MI, Kind.RECEIVE, MI, 1),
        ("gather", MI, 0, Kind.GATHER, 4 * MI, 3 / 4),
        ("scatter", 0, MI, Kind.SCATTER, 4 * MI, 3 / 4),
    ],
)
def test_messages(name: str, sent: int, received: int, kind: Kind, elements: int, factor: float) -> None:
    found = message(name, "BFloat16", sent, received, 4)
    assert found is not None
    assert found == (kind, 2 * elements, factor)
    assert found.compute_algorithm_bandwidth(2.0) == elements
    assert found.compute_bus_bandwidth(2.0) == elements * factor


def test_what_is_not_known_has_no_message() -> None:
    assert message("allreduce", "Float", -1, -1, 4) is None
    assert message("allreduce", "Mystery", 8, 8, 4) is None
    assert message("allreduce", "Float", 8, 8, -1) is None
    assert message("unheard_of", "Float", 8, 8, 4) is None
    assert message("barrier", "", -1, -1, 4) == (Kind.BARRIER, 0, 0)


def test_one_rank_alone_uses_no_link() -> None:
    found = message("allreduce", "Float", 8, 8, 1)
    assert found is not None
    assert found.bus_factor == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", (Kind.ALL_REDUCE, "bf16")),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", (Kind.ALL_GATHER, None)),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_SIMPLE", (Kind.REDUCE_SCATTER, "fp32")),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", (Kind.ALL_REDUCE, "fp32")),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", (Kind.ALL_TO_ALL, "int8")),
        ("ncclDevKernel_Broadcast_RING_LL", (Kind.BROADCAST, None)),
        ("ncclKernel_AllReduce_RING_LL_Sum_half", (Kind.ALL_REDUCE, "fp16")),
        ("void at::native::reduce_kernel<512, 1>", None),
    ],
)  # fmt: skip
def test_kernel_names(name: str, expected: tuple[Kind, str | None] | None) -> None:
    assert kernel_collective(name) == expected


def test_names_of_ranges_and_dtypes() -> None:
    assert collective_kind("nccl:_all_gather_base") is Kind.ALL_GATHER
    assert collective_kind("nccl:reduce_scatter") is Kind.REDUCE_SCATTER
    assert collective_kind("nccl:all_reduce") is Kind.ALL_REDUCE
    names = ("Float", "Half", "BFloat16", "Long", "Byte")
    assert [dtype_name(name) for name in names] == ["fp32", "fp16", "bf16", "int64", "uint8"]
    assert dtype_name("") is None
