"""The order of evidence, and what names tell."""

import pytest

from perfkit.allocations import (
    ACTIVATION,
    AUTOCAST,
    BUFFER,
    COMMUNICATION_BUFFER,
    GRADIENT,
    GRAPH_POOL,
    OFFLOAD,
    OPTIMIZER_STATE,
    PARAMETER,
    TEMPORARY,
    UNKNOWN,
    UNSHARDED_PARAMETER,
    WORKSPACE,
)
from perfkit.record import Block
from tests.unit.analysis.memory.recording import Recording

HOPPER = 32 * 2**20
NODE = "autograd::engine::evaluate_function: AddmmBackward0"


def known(category: str) -> Block:
    return Block(address=1, size_bytes=8, category=category, name="a.weight")


def test_of_nothing() -> None:
    assert Recording().categories() == []


def test_known_blocks_without_events() -> None:
    assert Recording((known(PARAMETER), known(BUFFER))).categories() == [PARAMETER, BUFFER]


def test_a_category_that_is_none_of_ours_is_unknown() -> None:
    assert Recording((known("paged"),)).categories() == [UNKNOWN]


def test_a_known_block_stays_what_it_is_wherever_it_is_freed() -> None:
    recording = Recording((known(GRADIENT),))
    recording.phase("optimizer")
    recording.free(0, op="Optimizer.zero_grad#AdamW.zero_grad")
    assert recording.categories() == [GRADIENT]


def test_a_block_from_before_that_nobody_knows() -> None:
    recording = Recording((known(PARAMETER),))
    recording.unseen(99)
    recording.phase("forward")
    recording.make("aten::addmm")
    assert recording.categories() == [PARAMETER, UNKNOWN, ACTIVATION]


def test_what_the_source_told_comes_before_names_and_lifetimes() -> None:
    recording = Recording()
    recording.phase("forward")
    recording.make("FSDP::all_gather_copy_out", category=AUTOCAST)
    recording.make("aten::addmm", category=OFFLOAD)
    assert recording.categories() == [AUTOCAST, OFFLOAD]


@pytest.mark.parametrize("told", ["", UNKNOWN, "AUTOGRAD_DETAIL"])
def test_where_the_source_told_nothing_of_ours_the_rest_counts(told: str) -> None:
    recording = Recording()
    recording.phase("forward")
    recording.make("aten::addmm", category=told)
    assert recording.categories() == [ACTIVATION]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("FSDP::all_gather_copy_out (blocks.0)", UNSHARDED_PARAMETER),
        ("FSDP::all_gather (blocks.0)", COMMUNICATION_BUFFER),
        ("FSDP::cast_forward_inputs", ACTIVATION),
        ("fsdp::all_gather_copy_in", COMMUNICATION_BUFFER),
        ("FullyShardedDataParallel._pre_forward", UNSHARDED_PARAMETER),
        ("FullyShardedDataParallel._pre_forward_prefetch", UNSHARDED_PARAMETER),
        ("FullyShardedDataParallel.forward", ACTIVATION),
        ("c10d::_allgather_base_", COMMUNICATION_BUFFER),
        ("_c10d_functional::all_gather_into_tensor", COMMUNICATION_BUFFER),
        ("record_param_comms", COMMUNICATION_BUFFER),
        ("nccl:all_gather", COMMUNICATION_BUFFER),
        ("DistributedDataParallel.forward", COMMUNICATION_BUFFER),
        ("aten::addmm", ACTIVATION),
        ("## Call CompiledFxGraph fx3pq73 ##", ACTIVATION),
    ],
)
def test_names_of_ops_come_before_lifetimes(op: str, expected: str) -> None:
    recording = Recording()
    recording.phase("forward")
    block = recording.make(op)
    recording.phase("backward")
    recording.free(block)
    assert recording.categories() == [expected]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torch/distributed/fsdp/_fully_shard/_fsdp_param.py:1066 alloc_storage", UNSHARDED_PARAMETER),
        ("_fsdp_collectives.py:52 allocate", COMMUNICATION_BUFFER),
        ("torch/autograd/graph.py:416 unpack_from_cpu", OFFLOAD),
        ("torch/_inductor/cudagraph_trees.py:900 run", GRAPH_POOL),
        ("CUDABlas.cpp:280 at::cuda::blas::gemm", WORKSPACE),
        ("CublasHandlePool.cpp:110 getNewWorkspace", WORKSPACE),
        ("model.py:12 forward", UNKNOWN),
    ],
)
def test_lines_tell_without_phases(line: str, expected: str) -> None:
    recording = Recording(device="cuda:0")
    recording.make(line=line)
    assert recording.categories() == [expected]


def test_an_op_comes_before_a_line() -> None:
    recording = Recording()
    recording.phase("forward")
    recording.make("FSDP::all_gather_copy_out", line="_fsdp_collectives.py:431 foreach_all_gather_copy_out")
    assert recording.categories() == [UNSHARDED_PARAMETER]


def test_fsdp_reduces_into_the_gradient_and_gives_the_buffer_back() -> None:
    recording = Recording()
    recording.phase("backward")
    unsharded = recording.make("aten::mm")
    buffer = recording.make("FSDP::post_backward_reduce (blocks.1)")
    recording.free(unsharded, op="FSDP::post_backward_reduce (blocks.1)")
    gradient = recording.make("FSDP::post_backward_reduce (blocks.1)")
    staging = recording.make("aten::clone")
    recording.free(staging, op="FSDP::post_backward_reduce (blocks.0)")
    recording.free(buffer, op="FSDP::post_backward_rs_wait (blocks.0)")
    recording.phase("optimizer")
    recording.free(gradient)
    assert recording.categories() == [GRADIENT, COMMUNICATION_BUFFER, GRADIENT, COMMUNICATION_BUFFER]


def test_what_a_collective_made_and_was_not_seen_to_free_is_no_gradient() -> None:
    recording, unseen = Recording(), -1
    for step in range(2):
        recording.phase("backward")
        if step == 0:
            recording.make("FSDP::post_backward_reduce (blocks.1)")
            unseen = recording.make("FSDP::post_backward_reduce (blocks.1)")
        else:
            recording.free(unseen)
        gradient = recording.make("FSDP::post_backward_reduce (blocks.1)")
        recording.phase("optimizer")
        recording.free(recording.make("aten::sqrt"))
        recording.free(gradient)
    found = [name for name in recording.categories() if name != TEMPORARY]
    assert found == [COMMUNICATION_BUFFER, COMMUNICATION_BUFFER, GRADIENT, GRADIENT]


def test_buckets_of_ddp() -> None:
    recording = Recording()
    recording.phase("forward")
    recording.make("aten::empty", module="DistributedDataParallel")
    recording.make("aten::gelu", module="DistributedDataParallel")
    recording.make("aten::empty", module="DistributedDataParallel/GPT_0")
    assert recording.categories() == [COMMUNICATION_BUFFER, ACTIVATION, ACTIVATION]


def test_a_copy_in_backward_without_sharding_is_no_communication() -> None:
    recording = Recording()
    recording.phase("backward")
    block = recording.make("aten::clone")
    recording.make("aten::mm")
    recording.free(block, op=NODE)
    assert recording.categories() == [TEMPORARY, GRADIENT]


@pytest.mark.parametrize(("device", "expected"), [("cuda:0", WORKSPACE), ("cpu", TEMPORARY)])
def test_what_a_product_obtains_and_gives_back_is_its_workspace_on_a_gpu(device: str, expected: str) -> None:
    recording = Recording(device=device)
    recording.phase("forward")
    recording.make("aten::addmm")
    block = recording.make("aten::addmm")
    recording.free(block, op="aten::addmm")
    later = recording.make("aten::addmm")
    recording.free(later)
    recording.phase("backward")
    assert recording.categories() == [ACTIVATION, expected, TEMPORARY]


def test_the_workspace_that_cublas_keeps() -> None:
    recording = Recording(device="cuda:0")
    for step in range(3):
        recording.step(step)
        recording.phase("forward")
        if step == 0:
            recording.make("aten::addmm", size=8_519_680, module="a")
            recording.make("aten::addmm", size=HOPPER, module="b")
        block = recording.make("aten::addmm", size=HOPPER, module="a")
        recording.phase("backward")
        recording.free(block)
        recording.phase("optimizer")
        recording.free(recording.make("aten::sqrt"))
    assert recording.categories()[:3] == [WORKSPACE, WORKSPACE, ACTIVATION]


def test_the_state_that_an_optimizer_makes_under_a_collective_is_told_by_the_op() -> None:
    recording = Recording()
    recording.phase("optimizer")
    recording.make("c10d::broadcast_")
    recording.make("")
    assert recording.categories() == [COMMUNICATION_BUFFER, OPTIMIZER_STATE]
