"""The first step on fake tensors takes what a real one takes, and so do those after it."""

from itertools import accumulate

import pytest
import torch
from torch import nn

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.allocations import OPTIMIZER_STATE, Allocations
from perfkit.core.spec import RunSpec, WorkloadSpec, parse_variants
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.workloads.model_loss import call_loss
from perfkit.workloads.workload import draw_batches, make_optimizers
from perfkit.workloads.workload_table import load_workload

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.slow]  # real steps, rehearsed


def make_account(allocations: Allocations | None) -> MemoryAccount:
    assert allocations is not None
    account = build_memory_account(allocations)
    assert account is not None
    return account


def train(spec: WorkloadSpec) -> list[int]:
    """The peaks of two real steps, above what stands before the first."""
    workload = load_workload(spec, device="cpu")
    model = workload.build_model()
    assert isinstance(model, nn.Module)
    (optimizer,) = make_optimizers(workload, model).values()
    drawn = draw_batches(workload, torch.Generator())
    peaks, held = [], 0
    for batch in [next(drawn), next(drawn)]:
        with AllocationProfiler(ops=False) as profiler:
            call_loss(workload, model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
        sizes = [held, *(event.size for event in profiler.recorded.allocations)]
        peaks.append(max(accumulate(sizes)))
        held = sum(sizes)
    return peaks


@pytest.mark.parametrize(
    "workload",
    [
        WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 64, "batch_size": 8}),
        WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 16, "batch_size": 1}),  # the update is the peak
        WorkloadSpec(name="resnet", params={"depth": 18, "image_size": 32, "batch_size": 4}),
    ],
)
def test_the_first_steps_are_as_real_ones(workload: WorkloadSpec) -> None:
    (variant,) = parse_variants("baseline")
    rehearsed = rehearse_step(RunSpec(workload=workload, techniques=variant))
    first, later = make_account(rehearsed.first), make_account(rehearsed.allocations)
    state = sum(block.size_bytes for block in rehearsed.allocations.known if block.category == OPTIMIZER_STATE)
    before = rehearsed.held_bytes - state
    planned = [first.peak_bytes - before, later.peak_bytes - before]
    assert planned == pytest.approx(train(workload), rel=1e-3)


def test_the_first_step_makes_the_optimizer_state() -> None:
    (variant,) = parse_variants("baseline")
    small, large = (
        rehearse_step(RunSpec(workload=WorkloadSpec(name="gpt", params=params), techniques=variant))
        for params in ({"size": "nano", "seq_len": 16}, {"size": "nano", "seq_len": 128, "batch_size": 4})
    )
    first, later = make_account(small.first), make_account(small.allocations)
    assert first.peak_phase == later.peak_phase == "optimizer"
    sizes = [{share.category: share.bytes for share in each.categories} for each in (first, later)]
    assert sizes[0][OPTIMIZER_STATE] == sizes[1][OPTIMIZER_STATE]
    # Where backward is the peak, the second step has the optimizer state beside what the first had.
    first, later = make_account(large.first), make_account(large.allocations)
    assert first.peak_phase == later.peak_phase == "backward"
    assert OPTIMIZER_STATE not in {share.category for share in first.categories}
    assert first.peak_bytes < later.peak_bytes
