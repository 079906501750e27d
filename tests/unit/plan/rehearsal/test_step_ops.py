"""What a step on fake tensors issues, counted by hand."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import _functional_collectives as functional
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.profiler import record_function

from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants
from perfkit.cost.calls.collective import CollectiveType, Message
from perfkit.devices.ceilings.peak import Fp32Settings
from perfkit.instruments.range_marks import mark_phase
from perfkit.plan.rehearsal.compiled_code import RUN_KERNEL
from perfkit.plan.rehearsal.ranks.fake_ranks import simulate_ranks
from perfkit.plan.rehearsal.step_ops import (
    Issued,
    Issuer,
    StepCollective,
    StepCopy,
    StepGraphCall,
    StepOp,
    StepOps,
    StepPage,
)
from perfkit.plan.target.fake_host import FakeHostPage
from perfkit.plan.target.work import Work
from perfkit.trace.model import COMPILED_GRAPH
from perfkit.workloads.gpt import SIZES
from perfkit.workloads.workload_table import load_workload
from tests.fixtures.shared_rehearsals import share_rehearsals

GPT = WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 64})


rehearse_step = share_rehearsals()


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Two blocks in the place of four take half the time."""
    with patch.dict(SIZES, nano=replace(SIZES["nano"], layers=2)):
        yield


def issued(technique: str, ranks: int) -> list[Issued]:
    (techniques,) = parse_variants(technique)
    return list(rehearse_step(RunSpec(workload=GPT, techniques=techniques, launch=LaunchSpec(world_size=ranks))).issued)


def collectives(technique: str, ranks: int) -> list[tuple[str, str, int, float]]:
    return [
        (each.message.kind.value, each.phase, each.ranks, each.message.bytes)
        for each in issued(technique, ranks)
        if isinstance(each, StepCollective)
    ]


@pytest.mark.parametrize(("on_cpu", "moved"), [(True, [789 + 1024]), (False, [789, 1024])])
def test_loops_of_compiled_code_have_the_bytes_that_the_compiler_counts_and_a_gpu_kernel_each(
    on_cpu: bool, moved: list[int]
) -> None:
    with FakeTensorMode(), StepOps(on_cpu=on_cpu) as ops, mark_phase("backward"):
        RUN_KERNEL("cpp_fused_silu_backward_3", [789, 1024], [torch.empty(5, 7, dtype=torch.bfloat16)])
    works = [Work("compiled", "bf16", 0.0, each, False, "cpp_fused_silu_backward_3") for each in moved]
    assert ops.issued == [StepOp(work, "backward") for work in works]


@pytest.mark.parametrize(("replays", "issuer"), [(False, Issuer.COMPILED), (True, Issuer.GRAPH)])
def test_what_a_compiled_graph_calls_is_issued_by_it(replays: bool, issuer: Issuer) -> None:
    with FakeTensorMode(), StepOps(replays=replays) as ops, mark_phase("forward"):
        x = torch.empty(3, 4)
        with record_function(COMPILED_GRAPH):
            x.mm(x.t())
            RUN_KERNEL("cpp_fused_relu_0", [96], [x])
        x.relu()
    graph, *calls = ops.issued
    assert graph == StepGraphCall("forward")
    assert [(each.work.op, each.issuer) for each in calls if isinstance(each, StepOp)] == [
        ("aten::mm", issuer),
        ("cpp_fused_relu_0", issuer),
        ("aten::relu", Issuer.EAGER),
    ]


@pytest.mark.parametrize(
    ("fp32", "read"), [(Fp32Settings("ieee", "ieee", "ieee"), []), (None, ["aten::_local_scalar_dense"] * 3)]
)
def test_a_gpu_has_no_work_where_the_program_reads_a_number(fp32: Fp32Settings | None, read: list[str]) -> None:
    with FakeTensorMode(shape_env=ShapeEnv()), StepOps(fp32) as ops:
        count = torch.ones(())
        for _ in range(3):
            count.add_(1.0)
            count.item()
    names = [each.work.op for each in ops.issued if isinstance(each, StepOp)]
    assert [name for name in names if name != "aten::ones"] == [
        name for added in range(3) for name in ("aten::add_", *read[added : added + 1])
    ]


def test_ops_have_their_work_and_their_phase() -> None:
    with FakeTensorMode(), StepOps() as ops:
        weight = torch.empty(4, 8, requires_grad=True)
        with mark_phase("forward"):
            loss = (torch.empty(2, 4) @ weight).view(16).sum()
        with mark_phase("backward"):
            loss.backward()
    product, total, *backward = (each for each in ops.issued if isinstance(each, StepOp))
    flops = 2 * 2 * 4 * 8
    assert product == StepOp(Work("GEMM", "fp32", flops, 4 * (8 + 32 + 16), True, "aten::mm"), "forward")
    assert (total.work.op, total.phase) == ("aten::sum", "forward")  # the view between has no work
    assert {each.phase for each in backward} == {"backward"}
    assert [each.work.flops for each in backward if each.work.matrix] == [flops]  # nobody asks for the input's gradient


def test_products_of_fp32_are_computed_in_what_the_gpu_is_set_to() -> None:
    with FakeTensorMode(), StepOps(Fp32Settings("tf32", "tf32", "ieee", has_tf32=True)) as ops:
        torch.empty(2, 4) @ torch.empty(4, 8)
    (product,) = ops.issued
    assert isinstance(product, StepOp)
    assert product.work.dtype == "tf32"


def test_a_gpus_convolutions_are_in_tf32_and_its_products_are_not() -> None:
    with FakeTensorMode(), StepOps(Fp32Settings("ieee", "tf32", "tf32", has_tf32=True)) as ops:
        torch.nn.functional.conv2d(torch.empty(2, 3, 8, 8), torch.empty(4, 3, 3, 3))
        torch.empty(2, 4) @ torch.empty(4, 8)
    computed = [(op.work.op_class, op.work.dtype) for op in ops.issued if isinstance(op, StepOp)]
    assert computed == [("convolution", "tf32"), ("GEMM", "fp32")]


def test_an_op_without_a_formula_reads_and_writes_once() -> None:
    with FakeTensorMode(), StepOps() as ops:
        torch.polygamma(1, torch.empty(10, 10))
    (made,) = ops.issued
    assert isinstance(made, StepOp)
    assert made.work == Work("other", "fp32", 0.0, 2 * 400, False, "aten::polygamma")


def test_collectives_have_the_size_of_all_ranks_parts() -> None:
    with simulate_ranks(4), FakeTensorMode(allow_non_fake_inputs=True), StepOps() as ops:
        part, whole = torch.empty(10), torch.empty(40)
        dist.all_reduce(part)
        dist.all_gather_into_tensor(whole, part)
        dist.reduce_scatter_tensor(part, whole)
        dist.broadcast(part, src=0)
        functional.all_gather_tensor(part, 0, dist.group.WORLD)
    assert [each._replace(group="") for each in ops.issued if isinstance(each, StepCollective)] == [
        StepCollective(Message(CollectiveType.ALL_REDUCE, 40, 1.5), 4, "", summed=True),
        StepCollective(Message(CollectiveType.ALL_GATHER, 160, 0.75), 4, ""),
        StepCollective(Message(CollectiveType.REDUCE_SCATTER, 160, 0.75), 4, ""),
        StepCollective(Message(CollectiveType.BROADCAST, 40, 1.0), 4, ""),
        StepCollective(Message(CollectiveType.ALL_GATHER, 160, 0.75), 4, "", functional=True),
    ]


def test_collectives_tell_their_process_group() -> None:
    with simulate_ranks(4), FakeTensorMode(allow_non_fake_inputs=True), StepOps() as ops:
        part = torch.empty(10)
        half = dist.new_group([0, 1])
        for group in (None, half, half):
            dist.all_reduce(part, group=group)
    reduced = [each for each in ops.issued if isinstance(each, StepCollective)]
    assert [each.ranks for each in reduced] == [4, 2, 2]
    assert len({each.group for each in reduced}) == 2


def test_a_switch_sums_floats_and_nothing_else() -> None:
    with simulate_ranks(4), FakeTensorMode(allow_non_fake_inputs=True), StepOps() as ops:
        for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64):
            dist.all_reduce(torch.empty(10, dtype=dtype))
        for by in ("sum", "avg", "max"):
            functional.all_reduce(torch.empty(10), by, dist.group.WORLD)
        dist.broadcast(torch.empty(10), src=0)
    exchanged = [each for each in ops.issued if isinstance(each, StepCollective)]
    assert [each.summed for each in exchanged] == [True, True, False, False, True, False, False, False]


def test_copies_to_the_host_are_in_their_phase() -> None:
    page = FakeHostPage(0, 4096)
    with FakeTensorMode(), StepOps() as ops, mark_phase("forward"):
        ops.record_copy(page, True)
    assert ops.issued == [StepCopy(page, True, "forward")]


def test_recomputation_and_accumulation_are_in_the_step() -> None:
    def products(technique: str) -> dict[str, int]:
        found = [each for each in issued(technique, 1) if isinstance(each, StepOp) and each.work.matrix]
        return {name: sum(each.phase == name for each in found) for name in ("forward", "backward")}

    plain, ckpt, accum = map(products, ("baseline", "ckpt", "accum:steps=2"))
    assert plain == {"forward": 13, "backward": 26}  # 6 products in each of 2 layers, and the head
    assert ckpt == {"forward": 13, "backward": 36}  # those of the layers again, up to the last of each
    assert accum == {"forward": 26, "backward": 52}


def test_ddp_reduces_all_gradients_in_backward_in_two_buckets() -> None:
    gradients = 4 * SIZES["nano"].parameters
    reduced = [each for each in collectives("ddp", 2) if each[0] == "all-reduce"]
    assert {each[1:3] for each in reduced} == {("backward", 2)}
    # 1 MiB is reached by the second product of the last block's MLP, 1024 x 256 of fp32; the rest are fewer than 25.
    first, second = (each[3] for each in reduced)
    assert first + second == gradients
    assert 2**20 <= first < 2**20 + 8192


def test_smaller_buckets_are_more_and_reduce_the_same_bytes() -> None:
    reduced = [each[3] for each in collectives("ddp:bucket_mb=1", 2) if each[0] == "all-reduce"]
    assert sum(reduced) == 4 * SIZES["nano"].parameters
    assert len(reduced) >= 4  # 6.5 MiB, and the largest gradient has 1 MiB: no bucket has 2


def test_a_hook_is_planned_as_gradients_are() -> None:
    assert collectives("ddp:hook=bf16", 2) == collectives("ddp", 2)


def test_zero3_gathers_parameters_twice_and_scatters_gradients_once() -> None:
    found = collectives("zero3", 8)
    phases = [(kind, in_phase) for kind, in_phase, _, _ in found]
    assert {each: phases.count(each) for each in phases} == {
        ("all-gather", "forward"): 3,  # 2 blocks and what is left
        ("all-gather", "backward"): 3,
        ("reduce-scatter", "backward"): 3,
    }
    assert {ranks for _, _, ranks, _ in found} == {8}


def test_offloaded_parameters_are_read_for_forward_backward_and_update_and_written_after_it() -> None:
    workload = load_workload(GPT, device="cpu")
    model = workload.build_model()
    blocks = [model.get_submodule(name) for name in workload.blocks(model)]
    paged = sum(p.nbytes for block in blocks for p in block.parameters() if p.nbytes >= 4096)
    moved: Counter[tuple[str, bool]] = Counter()
    for each in issued("offload:what=parameters:to=disk", 1):
        if isinstance(each, StepPage):
            moved[each.phase, each.writes] += each.bytes
    assert moved == {
        ("forward", False): paged,
        ("backward", False): paged,
        ("optimizer", False): paged,
        ("optimizer", True): paged,
    }
