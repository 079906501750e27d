"""The order of evidence, and what names tell."""

import pytest

from perfkit.core.allocations import (
    ACTIVATION,
    AUTOCAST,
    BUFFER,
    COMMUNICATION_BUFFER,
    GRADIENT,
    GRAPH_POOL,
    OFFLOAD,
    PARAMETER,
    UNKNOWN,
    UNSHARDED_PARAMETER,
    WORKSPACE,
    InitialBlock,
)
from tests.unit.analysis.memory.recording import Recording, check

HOPPER = 32 * 2**20


def known(category: str) -> InitialBlock:
    return InitialBlock(address=1, size_bytes=8, category=category, name="a.weight")


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


STORIES = {
    "fsdp reduces into the gradient and gives the buffer back": """
        backward: unsharded=mm>gradient buffer=REDUCE>communication_buffer -unsharded@REDUCE gradient=REDUCE>gradient
        then: staging=clone>communication_buffer -staging@REDUCE -buffer@WAIT
        optimizer: -gradient
    """,
    "what a collective made and was not seen to free is no gradient": """
        backward: REDUCE>communication_buffer unseen=REDUCE>communication_buffer gradient=REDUCE>gradient
        optimizer: update=sqrt>temporary -update -gradient
        backward: -unseen gradient=REDUCE>gradient
        optimizer: update=sqrt>temporary -update -gradient
    """,
    "buckets of DDP": """
        forward: empty/DistributedDataParallel>communication_buffer gelu/DistributedDataParallel>activation
        then: empty/DistributedDataParallel/GPT_0>activation
    """,
    "a copy in backward without sharding is no communication": """
        backward: block=clone>temporary mm>gradient -block@NODE
    """,
    "the state that an optimizer makes under a collective is told by the op": """
        optimizer: c10d::broadcast_>communication_buffer =>optimizer_state
    """,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_names_and_lives_together(story: str) -> None:
    check(story)


@pytest.mark.parametrize(("device", "expected"), [("cuda:0", "workspace"), ("cpu", "temporary")])
def test_what_a_product_obtains_and_gives_back_is_its_workspace_on_a_gpu(device: str, expected: str) -> None:
    check(
        f"""
        forward: addmm>activation block=addmm>{expected} -block@aten::addmm later=addmm>temporary -later
        backward:
        """,
        device=device,
    )


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
