"""Collectives in kernels of their own, those that overlap, and those outside of steps; times in microseconds."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.cost.calls.collective import CollectiveType, classify_collective, parse_kernel_ranks
from perfkit.trace.ops.kernels import is_collective_kernel
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

# As traces of vLLM, SGLang, aiter, torch and FlashInfer call them, with the number of ranks that they were built for.
EXCHANGING = {
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)": 8,
    "void sglang::cross_device_reduce_2stage<__half, 4>(sglang::RankData*, sglang::RankSignals, __half*, int, int)": 4,
    "void aiter::cross_device_reduce_2stage_write_mode<__hip_bfloat16, 8>(aiter::RankData*)": 8,
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)": None,
    "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)": 2,
    "void (anonymous namespace)::one_shot_all_reduce_kernel<float, 16, 8>(float**, float*, unsigned long)": 8,
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half, "
    "quickreduce::CodecQ4<__half, 8>, true>, __half>(__half const*, __half*, unsigned int)": 8,
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
    "(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 2, true, true>(Params)": 2,
    "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<(unsigned char)8, __nv_bfloat16, true>()": 8,
    "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*, int*, long*)": None,
    "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)": 8,
    "void (anonymous namespace)::multimem_one_shot_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)": None,
    "c10d::nvshmem_extension::exchangeSplitAndOffset(long*, int, int)": None,
    "void c10d::nvshmem_extension::allToAllV_2d<true>(void*, void*, long*)": None,
    "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int, int)": None,
    "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)": None,
    "ncclSymDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymDevArgs)": None,
    "void tensorrt_llm::kernels::lamport_style_one_shot_all_reduce_norm_kernel<__nv_bfloat16, 8, false>(Params)": 8,
    "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel<8, false, false, true>(int const*)": None,
    "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*)": 8,
    "void mori::moe::EpCombineIntraNodeKernel<__hip_bfloat16>(Args)": None,
    "void mscclpp::executionKernel<unsigned char, (mscclpp::ReuseScratch)0>(int)": None,
    "userbuffers_fp16_sum_inplace_gpu_rw_ag(int, int*)": None,
    "kuserbuffers_pushsend(int*, int*, int4*, int4*, int)": None,
    "void deep_ep::intranode::barrier<8>(int**, int)": 8,
    "void hybrid_ep::dispatch_kernel<unsigned short, 4>(Params)": None,
    "void (anonymous namespace)::wait_signal_kernel(unsigned int**, int, int, int, int, unsigned long)": None,
}
COMPUTING = (
    "triton_poi_fused_add_all_reduce_4",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp<float>)",
    "void rmsNormLamport<all_reduce>(float*)",
    "void cutlass_allgather_gemm_kernel<4>(Params)",
    "void deep_ep::layout::get_dispatch_layout<256, 4>(long const*)",
    "void deep_ep::internode_ll::clean_low_latency_buffer<256>(long*, int)",
    "void pa_decode_tile_reduce_kernel(float*)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::BroadcastFunctor<float>>(int)",
    "void cub::DeviceReduceKernel<float>(float*)",
)


@pytest.mark.parametrize("name", EXCHANGING)
def test_kernels_that_read_and_write_other_ranks_memory_exchange_data(name: str) -> None:
    assert is_collective_kernel(name)
    assert parse_kernel_ranks(name) == EXCHANGING[name]
    if "reduce" in name.lower() and "one_shot_reduce" not in name and "scatter" not in name:
        assert classify_collective(name.partition("<")[0]) is CollectiveType.ALL_REDUCE


@pytest.mark.parametrize("name", COMPUTING)
def test_what_is_named_after_a_collective_and_computes_is_work(name: str) -> None:
    assert not is_collective_kernel(name)


def analysed(tmp_path: Path, events: list[Event], world_size: int | None = None) -> RankTrace:
    path = write_trace(tmp_path / "t.json.gz", events)
    if world_size is not None:
        about = {"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": world_size}}
        path = tmp_path / "t.json"
        path.write_text(json.dumps(about))
    return analyze_trace(read_trace(path), None)


def one(name: str, of: str, inputs: list[tuple[int, ...]]) -> list[Event]:
    return [
        mark("ProfilerStep#1", 0, 100),
        op("vllm::all_reduce", 0, 30, [inputs[0]], "c10::BFloat16"),
        op(of, 5, 20, inputs, "c10::BFloat16"),
        launch(1, 10),
        kernel(name, 1, 20, 50),
    ]


def test_a_custom_all_reduce_has_bytes_and_bus_bandwidth(tmp_path: Path) -> None:
    name = next(iter(EXCHANGING))
    result = analysed(tmp_path, one(name, "_C_custom_ar::all_reduce", [(1000, 50), (1000, 50)]))
    (row,) = result.collectives
    assert (row.name, row.group_size, row.dtype, row.message_bytes) == ("all_reduce", 8, "BFloat16", 100_000)
    assert row.algorithm_bandwidth == pytest.approx(100_000 / 50e-6)
    assert row.bus_bandwidth == pytest.approx(2 * 7 / 8 * 100_000 / 50e-6)
    assert {part.category: round(part.seconds * 1e6) for part in result.time_split}["communication"] == 50


@pytest.mark.parametrize(("world_size", "factor"), [(8, 1.75), (None, None)])
def test_a_kernel_that_does_not_tell_its_ranks_is_of_the_only_group(
    tmp_path: Path, world_size: int | None, factor: float | None
) -> None:
    name = "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)"
    result = analysed(tmp_path, one(name, "symm_mem::multimem_all_reduce_", [(1000, 50)]), world_size)
    (row,) = result.collectives
    assert (row.message_bytes, row.group_size) == (100_000, world_size)
    assert row.bus_bandwidth == (None if factor is None else pytest.approx(factor * 100_000 / 50e-6))


def gloo(start: float, duration: float, thread: int) -> Event:
    about: dict[str, Any] = {
        "Collective name": "allreduce",
        "dtype": "Float",
        "In msg nelems": 10,
        "Out msg nelems": 10,
    }
    return {**mark("gloo:all_reduce", start, duration, thread), "args": about}


def test_collectives_of_several_threads_have_wall_time_beside_their_sum(tmp_path: Path) -> None:
    result = analysed(
        tmp_path,
        [mark("ProfilerStep#1", 0, 100), op("aten::mm", 0, 10, [(8, 8), (8, 8)]), gloo(10, 80, 2), gloo(15, 85, 3)],
    )
    (row,) = result.collectives
    assert (row.calls, row.seconds, row.wall_s, row.exposed_s) == pytest.approx((2, 165e-6, 90e-6, 90e-6))
    assert row.wall_s == result.overlap.communication_s
    exchanging = next(each for each in result.ops if each.name == "gloo:all_reduce")
    assert (exchanging.seconds, exchanging.wall_s) == pytest.approx((165e-6, 90e-6))
    assert exchanging.share == pytest.approx(0.9)
    assert all(each.share <= 1 for each in (*result.ops, *result.phases, *result.modules))


def test_communication_outside_of_steps_is_in_the_totals_of_the_whole_trace(tmp_path: Path) -> None:
    name = next(iter(EXCHANGING))
    outside = [
        op("_C_custom_ar::all_reduce", 200, 20, [(1000, 50)] * 2, "c10::BFloat16"),
        launch(2, 210),
        kernel(name, 2, 230, 25),
    ]
    result = analysed(tmp_path, [*one(name, "_C_custom_ar::all_reduce", [(1000, 50)] * 2), *outside])
    (row,) = result.collectives
    assert (row.calls, row.seconds, row.all_calls, row.all_s) == pytest.approx((1, 50e-6, 2, 75e-6))
    overlap = result.overlap
    assert (overlap.communication_s, overlap.all_communication_s) == pytest.approx((50e-6, 75e-6))
    assert overlap.all_exposed_communication_s == pytest.approx(75e-6)
