"""An evaluation on fake tensors takes what a real one does, whether its loop keeps the logits or not."""

from itertools import accumulate

import pytest
import torch
from torch import nn

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.record import Unknown
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.plan.rehearsal.evaluation import RehearsedEvaluation
from perfkit.plan.rehearsal.rehearsal import RehearsedStep, rehearse_step
from perfkit.plan.variants.phases import compute_kept_bytes
from perfkit.workloads.model_loss import call_loss
from perfkit.workloads.workload import draw_batches
from perfkit.workloads.workload_table import load_workload

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.slow]  # real steps, rehearsed

GPT = WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 16})
SAMPLES = 12


def rehearse(techniques: str = "baseline", ranks: int = 1, workload: WorkloadSpec = GPT) -> RehearsedStep:
    (variant,) = parse_variants(techniques)
    spec = RunSpec(workload=workload, techniques=variant, launch=LaunchSpec(world_size=ranks))
    return rehearse_step(spec, None, SAMPLES)


def forward_peak(step: RehearsedStep) -> tuple[RehearsedEvaluation, int]:
    """The evaluation, and its peak above what is held between steps."""
    assert isinstance(step.evaluation, RehearsedEvaluation)
    account = build_memory_account(step.evaluation.allocations)
    assert account is not None
    assert account.peak_phase == "forward"
    return step.evaluation, account.peak_bytes - step.held_bytes


def evaluate(batches: int, kept: bool) -> int:
    """The peak of a real loop above its start, as recorded; logits are joined as by Transformers' Trainer."""
    workload = load_workload(GPT.replace_params(batch_size=SAMPLES), device="cpu")
    model = workload.build_model()
    assert isinstance(model, nn.Module)
    model.eval()
    drawn = draw_batches(workload, torch.Generator())
    outputs: list[torch.Tensor] = []
    model.register_forward_hook(lambda _module, _args, output: outputs.append(output))
    made = [next(drawn) for _ in range(batches)]
    joined: torch.Tensor | None = None
    with AllocationProfiler(ops=False) as profiler, torch.no_grad():
        for each in made:
            batch = {name: tensor.clone() for name, tensor in each.items()}
            call_loss(workload, model, batch)
            logits = outputs.pop()
            if kept:
                joined = logits if joined is None else torch.cat((joined, logits))
            del logits, batch
    return max(accumulate(event.size for event in profiler.recorded.allocations))


def test_a_step_takes_what_a_real_one_takes() -> None:
    _, planned = forward_peak(rehearse())
    assert planned == pytest.approx(evaluate(batches=1, kept=False), rel=1e-3)


@pytest.mark.parametrize("batches", [1, 2, 9])
def test_logits_that_are_kept_take_what_they_take_in_a_real_loop(batches: int) -> None:
    evaluation, planned = forward_peak(rehearse())
    assert evaluation.logits_bytes == SAMPLES * 16 * 256 * 4
    more = compute_kept_bytes(evaluation, planned, batches)
    assert planned + more == pytest.approx(evaluate(batches, kept=True), rel=0.02)


def test_without_gradients_no_layer_keeps_its_inputs() -> None:
    step = rehearse()
    training = build_memory_account(step.allocations)
    assert training is not None
    _, planned = forward_peak(step)
    per_sample = planned / SAMPLES
    assert per_sample < (training.peak_bytes - step.held_bytes) / 2 / 2  # of two samples, which keep activations


def test_ranks_gather_the_logits_of_all() -> None:
    evaluation, _ = forward_peak(rehearse("zero3", ranks=4))
    assert (evaluation.copies, evaluation.units) == (4, 4 * SAMPLES * 16)
    assert compute_kept_bytes(evaluation, 0, 3) == 2 * 3 * 4 * evaluation.logits_bytes


def test_a_pipeline_is_not_evaluated() -> None:
    evaluation = rehearse("pp", ranks=2).evaluation
    assert isinstance(evaluation, Unknown)
    assert "pipeline" in evaluation.reason
